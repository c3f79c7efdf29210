"""The hypotheses about the best arms, the evidence against each, and what is still possible.

- `state`: the hypotheses, the one rule that rules them out, the verdict;
- `trials`: the life of a trial: its ticket, its reward, its loss, or its worst factors while it is pending;
- `refresh`: evidence brought up to date, of bets and of counts;
- `product`: the evidence against a representation, over all tasks and for each vector of predictors;
- `tolerance`: arms that are nearly as good as the answer;
- `model_check`: evidence in every task that the answer is not beaten there by more than a margin;
- `blocks`: many trials at a time, for forecasts; `posterior`: plausible means, for forecasts;
- `summary`: hypotheses, claims, objections and answers by name.
"""
