"""The checker: reads what a run left behind, and convicts what breaks the invariants. It knows nothing of the product.

python -m tests.proof.checker FOLDER [--limit N]
"""

from tests.proof.checker.evidence import Evidence, load
from tests.proof.checker.figures import figures
from tests.proof.checker.rule import Violation
from tests.proof.checker.story import stories_of
from tests.proof.checker.verdict import check

__all__ = ["Evidence", "Violation", "check", "figures", "load", "stories_of"]
