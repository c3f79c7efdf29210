"""A study over HTTP: `osrl serve`.

    request -> guard (host, size, token) -> route (role) -> worker of the study -> log -> answer
                                                                             `-> feed -> event streams

- `app`: the application, with all its routes; `server`: the process that runs it
- `guard`, `roles`, `tokens`: who may do what; `problems`: what is refused, and how that is said
- `workers`: one thread for each study, which answers in one transaction what arrives together
- `feeds`: server-sent events, from any point of a log
- `calls`, `reading`, `life`, `accounts`: the routes of the API; `flags`: OpenFeature; `pages`: signing in
- `screens`, `watching`: the pages of studies in a browser (`osrl.page`)
- `verdicts`: a signed message when a study has ended

The service holds nothing that the database does not: it may be killed at any point and started again.
"""
