"""What a sabotage is."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Sabotage:
    """`old`, which stands once in `file`, gives way to `new`; `tests` (a filter) of
    `program` have to fail."""
    name: str
    left_out: str
    file: str
    old: str
    new: str
    program: str
    tests: str
    environment: dict = dataclasses.field(default_factory=dict)
