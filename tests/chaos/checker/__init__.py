"""The checker: reads what a run left behind, and convicts what breaks the invariants. It knows nothing of the product.

python -m tests.chaos.checker FOLDER [--limit N] [--json]
"""

from tests.chaos.checker.evidence import Evidence, load
from tests.chaos.checker.figures import figures
from tests.chaos.checker.story import tell, tell_all
from tests.chaos.checker.verdict import check
from tests.chaos.checker.violation import Violation

__all__ = ["Evidence", "Violation", "check", "figures", "load", "tell", "tell_all"]
