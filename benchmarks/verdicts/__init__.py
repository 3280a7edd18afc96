"""Error rates of latspan's verdicts, on recordings of known truth."""
