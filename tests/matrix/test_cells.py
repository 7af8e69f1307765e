from __future__ import annotations

from tests.matrix.cells import FAILOVERS, FORMS, INTERRUPTIONS, Cell, matrix, pairs, sample


def test_the_matrix_has_each_pair_of_values() -> None:
    cells = matrix()
    assert len(cells) == len({cell.name for cell in cells}) == 216
    outcomes = {cell.outcome for cell in cells}
    assert len(outcomes) == 13
    every = [
        Cell(outcome, form, reconciler, failover)
        for outcome in outcomes
        for form in FORMS
        for reconciler in (False, True)
        for failover in FAILOVERS
    ]
    assert pairs(cells) == pairs(every)
    assert all(Cell.parse(cell.name) == cell for cell in cells)


def test_the_sample_has_each_outcome_that_is_recorded() -> None:
    outcomes = {cell.outcome for cell in matrix()}
    assert {cell.outcome for cell in sample()} >= outcomes - set(INTERRUPTIONS)
