"""What is still possible, and why: one set of hypotheses for policies, studies and logs.

- `possible`: the hypotheses, the evidence against each, the one rule that rules them out, the verdict;
- `current`: the evidence brought up to date, of bets and of counts;
- `trials`: what a trial does to them: its ticket, its reward, its loss, or that it has not reported;
- `shared`: the evidence against a representation, over all tasks;
- `vectors`: representations tested for each choice of a predictor in every task;
- `tolerance`, `routes`: arms that are nearly as good, and the way that ends first;
- `beliefs`: what they say about the means, for forecasts;
- `words`: hypotheses, claims, objections and answers as people read them, by name.
"""
