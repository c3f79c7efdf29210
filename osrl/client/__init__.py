"""Studies on a server: `osrl.connect`.

- `endpoints`: the requests and results of each call, without any network
- `transport`: runs calls, blocking or awaited; repeats lost requests without handing out a trial twice
- `remote`, `remote_async`: `RemoteStudy` with the methods of `Study`, and the same to be awaited
- `decode`, `files`: documents and files of the server
"""

from osrl.client.remote import RemoteStudy as RemoteStudy
from osrl.client.remote import connect as connect
from osrl.client.remote_async import AsyncRemoteStudy as AsyncRemoteStudy
from osrl.client.remote_async import connect_async as connect_async
