"""The host: the program of the user. It has a client for each server, and one policy for all of them.

    user <--> host --+-- client 1 <--> server 1       a process, a session, credentials and roots of its own
              model  +-- client 2 <--> server 2

The specification divides the work into three roles. A *server* offers tools, resources and prompts, and a *client*
speaks with one server. The *host* creates the clients, asks the user for consent, and combines the results for a model,
while a server sees neither the conversation nor another server. Most duties of a host are about consent:

    Duty                                      Here                     Source (2026-07-28)
    consent before data goes to a server      `Approval`: start, roots index#key-principles
    confirmation of calls, with the arguments `Approval`: call         server/tools#user-interaction-model
    different names for tools of equal name   names.py                 server/tools#tool-names
    no trust in annotations                   `HostOptions.trusted`    server/tools#tool
    checked results, logged calls             `Client`, `audit`        server/tools#security-considerations
    approval of sampling and of its result    `Approval`, `Budget`     client/sampling#user-interaction-model
    the name of the server, the host of a URL `Approval`: elicit       client/elicitation#user-interaction-model
    existing directories only, with consent   `Approval`: roots        client/roots#implementation-guidelines
    restart of a server that exits            supervisor.py            basic/transports/stdio#unexpected-termination
    one process for all conversations         `Host`                   basic/index#statelessness

One call of a tool, from the program or from its model:

    call_tool("weather.forecast") -> is the server ready? -> budget -> approve(Approval) -> audit line
        -> tools/call on the client of this server -> result -> audit line -> cut the text for a model

Code cannot judge if a description is honest, a form is phishing, or a result contains instructions for the model, so
the host shows each of them with the name of its server, and lets the user refuse.

names.py           the names of servers and tools
configuration.py   the configuration files of known hosts
dangers.py         the dangers of a start and of a URL
approval.py        a request for the user's consent
launch.py          a server with its variables replaced, and everything that consent to its start depends on
supervisor.py      start and restart of a server
policy.py          settings, decisions, budgets and the audit log
definitions.py     the user's consent to the definitions of tools
results.py         the part of a result, resource, prompt or error that a model gets
throttle.py        a limit on the messages that a server sends unasked
hosted.py          one server of a host: consent, client, calls, requests of the server
host.py            `Host`, and `SyncHost` for programs without asyncio
"""
