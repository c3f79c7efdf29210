"""Studies over HTTP: `osrl serve`.

    request -> middleware (host, size, token) -> route (permission) -> worker of the study -> log -> answer
                                                                                         `-> feed -> event streams

- `server`, `protocol`: the process, and HTTP with limits; `app`: the application with all its routes
- `middleware`, `tokens`: who may do what; `problems`: refusals and how they are said
- `routing`, `openapi`, `models`: how routes are declared, found and described; `routes`: the routes by topic
- `workers`: one thread for each study, which answers in one transaction the calls that arrive together
- `idempotency`: a repeated request gets the same trials; `tables`: what the service keeps in the database
- `event_stream`: server-sent events from any point of a log; `downloads`: logs and tables as files
- `page_cache`: forecasts and timelines for the pages in a browser (`osrl.page`)
- `webhooks`: a signed message when a study has ended

All state is in the database: a server may be killed at any point and started again.
"""
