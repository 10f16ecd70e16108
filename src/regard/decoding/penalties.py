"""Length: a sum of log-probabilities prefers short translations, and the penalty takes that back."""


def gnmt(length: int, alpha: float) -> float:
    """((5 + length) / 6)^α, by which a sum of log-probabilities is divided (Wu et al., 2016, equation 14).

    `length` counts symbols with the end symbol, where it was reached: as many as there are log-probabilities.
    """
    return float(((5.0 + length) / 6.0) ** alpha)
