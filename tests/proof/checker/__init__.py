"""The checker: reads what a run left behind, and convicts what breaks the invariants. It knows nothing of the product.

python -m tests.proof.checker FOLDER [--limit N] [--json]
"""

from tests.proof.checker.evidence import Evidence, load
from tests.proof.checker.figures import figures
from tests.proof.checker.story import tell, tell_all
from tests.proof.checker.verdict import check
from tests.proof.checker.violation import Violation

__all__ = ["Evidence", "Violation", "check", "figures", "load", "tell", "tell_all"]
