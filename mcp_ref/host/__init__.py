"""The host: several servers, one policy.

names.py           the names of servers and tools
configuration.py   the configuration files of known hosts
launch.py          a server with its variables replaced
policy.py          approvals, budgets and the audit log
supervisor.py      start and restart of a server
hosted.py          one server of a host: consent, client, approved tools, requests of the server
host.py            `Host`
"""
