"""What is still possible, and why: one set of hypotheses for policies, studies and logs.

- `possible`: the hypotheses, the evidence against each, the one rule that rules them out, the verdict;
- `trials`: what a trial does to them: its ticket, its reward, its loss, or that it has not reported;
- `shared`: the evidence against a representation, over all tasks;
- `words`: hypotheses, claims, objections and answers as people read them, by name.
"""
