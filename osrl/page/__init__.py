"""The page of a study, for people who do not program: served live, or frozen as one file.

    log -> Timeline -> PageSnapshot (status, history) -> page_view (sentences, rows, charts) -> template -> HTML

- `snapshot`: a study at one point of its log, and how it came there
- `sentences`: the verdict and the guarantee in words
- `charts`: rows and charts, and where their marks are, in percent of their width
- `view`: the variables of the template; `render`: the pages

The server renders everything. The module in the browser requests the page again when the log has grown, and
replaces the parts that have changed. Charts are SVG that templates write from the numbers of the status: colours come
from the style sheet, lengths in percent fit any screen, and an update moves a mark by changing an attribute.
"""
