"""Studies that a server keeps: `osrl.connect`.

- `remote`: `RemoteStudy`, with the interface of `Study`; `remote_async`: the same to be awaited
- `calls`: what is sent for each call, and how its answer is read; nothing in it knows a network
- `sending`: requests that are repeated when they are lost, and never hand out a trial twice
- `files`: logs and tables that a server sends
- `documents`: answers of the server as the objects that a local study gives
"""

from osrl.client.remote import RemoteStudy as RemoteStudy
from osrl.client.remote import connect as connect
from osrl.client.remote_async import AsyncRemoteStudy as AsyncRemoteStudy
from osrl.client.remote_async import connect_async as connect_async
