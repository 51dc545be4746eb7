"""The screen, by Textual: tables that are read again every few seconds, what the doctor finds, and keys to look closer."""

from collections.abc import Awaitable, Callable
from typing import ClassVar, assert_never
from uuid import UUID

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Static, TabbedContent, TabPane

from turnstile.errors import TurnstileError
from turnstile.ops.terminal.output import cell, value_getter
from turnstile.ops.top.snapshot import Snapshot
from turnstile.ops.top.views import EVERYTHING, TURNS, VIEWS, ExplainTurn, ShowTurns, View, headline
from turnstile.telemetry.terminal_text import harmless

DOCTOR_EVERY_SECONDS = 30.0


class TurnDetails(ModalScreen[None]):
    """What one turn waits for, or how it ended."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,enter,q", "app.pop_screen", "back")]
    CSS = "TurnDetails { align: center middle; } #details { width: 90%; height: 80%; border: round $primary; padding: 1 2; }"

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="details"):
            yield Static(Text(harmless("\n".join(self._lines))))
        yield Footer()


class TopScreen(App[None]):
    """`read` takes a snapshot, `explain` says the lines of a turn. The screen reports a TurnstileError of either, and goes on.

    `check` says in one line what the doctor finds. It runs in parallel with the reads, because it also asks SQS and
    Redis.
    """

    TITLE = "turnstile top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *((str(place), f"show('{view.name}')", view.name) for place, view in enumerate(VIEWS, 1)),
        ("escape", "show_all", "all turns"),
        ("space", "hold", "hold"),
        ("q", "quit", "quit"),
    ]
    CSS = "#doctor, #headline, #trouble { height: auto; padding: 0 1; } #trouble { color: $error; }"

    def __init__(
        self,
        read: Callable[[], Awaitable[Snapshot]],
        explain: Callable[[UUID], Awaitable[list[str]]],
        check: Callable[[], Awaitable[str]],
        every_seconds: float,
    ) -> None:
        super().__init__()
        self._read = read
        self._explain = explain
        self._check = check
        self._every_seconds = every_seconds
        self._holding = False
        self._looking = False
        self._checking = False
        self._shown = EVERYTHING
        self._snapshot: Snapshot | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="doctor")
        yield Static(id="headline")
        yield Static(id="trouble")
        with TabbedContent(id="views"):
            for view in VIEWS:
                with TabPane(view.name, id=view.name):
                    yield DataTable(id=f"{view.name}-table", cursor_type="row")
        yield Footer()

    def on_mount(self) -> None:
        for view in VIEWS:
            self._table(view).add_columns(*view.columns)
        self.action_show(VIEWS[0].name)
        self.set_interval(self._every_seconds, self._look_again)
        self._look_again()
        self.set_interval(DOCTOR_EVERY_SECONDS, self._check_again)
        self._check_again()

    def _check_again(self) -> None:
        if not (self._holding or self._checking):
            self._checking = True
            self.run_worker(self._show_findings())

    async def _show_findings(self) -> None:
        try:
            found = await self._check()
        except TurnstileError as error:
            found = str(error)
        finally:
            self._checking = False
        self.query_one("#doctor", Static).update(Text(found))

    def _look_again(self) -> None:
        # A slow look is not given up for the next one: otherwise nothing would ever be shown.
        if not (self._holding or self._looking):
            self._looking = True
            self.run_worker(self._look())

    async def _look(self) -> None:
        try:
            self._snapshot = await self._read()
        except TurnstileError as error:
            self._report(str(error))
            return
        finally:
            self._looking = False
        self._report("")
        self._draw()

    def _draw(self) -> None:
        if self._snapshot is None:
            return
        self.query_one("#headline", Static).update(Text(harmless(headline(self._snapshot))))
        for view in VIEWS:
            table = self._table(view)
            row = table.cursor_row
            table.clear()
            for one in view.rows(self._snapshot, self._shown):
                table.add_row(*(Text(cell(value_getter(column)(one))) for column in view.columns.values()))
            table.move_cursor(row=min(row, max(0, table.row_count - 1)))

    def _table(self, view: View) -> "DataTable[Text]":
        return self.query_one(f"#{view.name}-table", DataTable)

    def _report(self, trouble: str) -> None:
        self.query_one("#trouble", Static).update(Text(harmless(trouble)))

    # --- keys

    def action_show(self, name: str) -> None:
        """Shows one of the views."""
        self.query_one("#views", TabbedContent).active = name
        self.query_one(f"#{name}-table", DataTable).focus()

    def action_show_all(self) -> None:
        """Shows the turns of all queues and workers again."""
        self._shown = EVERYTHING
        self._draw()

    def action_hold(self) -> None:
        """Stops the reads, or goes on with them."""
        self._holding = not self._holding
        self._report("on hold: press space to go on" if self._holding else "")

    async def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        view = next(view for view in VIEWS if f"{view.name}-table" == event.data_table.id)
        rows = [] if self._snapshot is None else view.rows(self._snapshot, self._shown)
        if event.cursor_row >= len(rows):
            return
        match way := view.way(rows[event.cursor_row]):
            case ShowTurns():
                self._shown = way
                self._draw()
                self.action_show(TURNS.name)
            case ExplainTurn(turn_id):
                await self._open(turn_id)
            case _:
                assert_never(way)

    async def _open(self, turn_id: UUID) -> None:
        try:
            lines = await self._explain(turn_id)
        except TurnstileError as error:
            self._report(str(error))
            return
        self.push_screen(TurnDetails(lines))
