"""The page of a study, for people who do not program: served live, or frozen as one file.

    log -> Timeline -> Moment (status document, path) -> view (words, rows, marks) -> template -> HTML

- `timeline`: goes through a log once and keeps what a status does not: the way there
- `moment`: everything a page says, at one point of the log
- `words`: the verdict and the guarantee in sentences; `writing`: how numbers, shares and ages are written
- `marks`: where the marks of charts are, in percent of their width
- `view`, `waiting`: what templates are filled with
- `render`: templates (Jinja2, escaping everything), and the frozen file

The server renders everything. The module in the browser asks for the page again when the log has grown, and
brings what has changed into the one that is shown. Charts are SVG that templates write from the numbers of
the status document: colours come from the style sheet, lengths in percent fit any screen, and an update moves
a mark by changing an attribute.
"""
