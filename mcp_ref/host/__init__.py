"""The host: several servers, one policy.

names.py           the names of servers and tools
configuration.py   the configuration files of known hosts
launch.py          a server with its variables replaced
policy.py          approvals, budgets and the audit log
inputs.py          the requests of a server: sampling, elicitation, roots
supervisor.py      start and restart of a server
hosted.py          one server of a host
host.py            `Host`
"""
