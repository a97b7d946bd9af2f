"""Streamable HTTP: a client sends each message by POST to one URL. The response is JSON or a server-sent-event stream.

In the legacy era (revisions up to 2025-11-25), a session id joins many HTTP requests into one conversation. If a
stream breaks, the client resumes it, because the server has stored its events. In the modern era (from 2026-07-28),
each request is stateless: its response is the only stream, and a client that closes it cancels the request.

The map of the server:

    any HTTP request                      server.py: handle; checks.py: guard, check, refuse
    a web page asks for permission        checks.py: preflight
    who is the caller                     checks.py: guard; session.py: admit
    POST: of a session or stateless?      server.py: _route, _post, _is_stateless
    POST of `initialize`                  server.py: _initialize; session_table.py: begin; posted_session.py: receive
    POST of a request in a session        server.py: _post_in_session; session.py: open_stream, respond_to
    a message of the server in a session  session.py: send, put, keep_alive; event_store.py: append
    GET: listen, or resume a stream       server.py: _get; session.py: attach; event_store.py: events_after
    DELETE, idle, or too many sessions    server.py: _delete; session_table.py: end, keep_alive; idle_order.py: add
    a session outlives the process        session_table.py: find, _restore; durable_store.py: save, load;
                                          storage_thread.py: run; sqlite_store.py: save, load;
                                          kept_requests.py: note, settle; restoration.py: repeat_requests, add_error;
                                          leases.py: has, extend (for several processes); handover.py: refuse
    POST of a stateless request           server.py: _serve_stateless; stateless.py: check_request, serve, notify
    client closes a stateless request     stateless.py: _cancel
    too many requests or unread messages  stateless.py: add; session.py: has_room, drain

The map of the client:

    send a message                        client.py: round_trip, send, _post; stateless_client.py: round_trip
    a stream breaks                       resumption.py: read_and_resume, resume_header, retry_seconds
    messages that belong to no request    client.py: _listen; resumption.py: listen
    the server has forgotten the session  client.py: _renew_session, _repeat_handshake
    an HTTP error; is the server older?   client.py: _try_http_sse; stateless_client.py: error_in, suggests_legacy_era

Spec:  basic/transports#streamable-http (2025-03-26 to 2025-11-25); 2026-07-28 basic/transports/streamable-http
"""
