"""The table of benchmarks/mutants keeps up with the code: what cannot be made proves nothing."""

from __future__ import annotations

import ast
import re
import runpy

from conftest import PLUGIN

MUTANTS = runpy.run_path(str(PLUGIN / "benchmarks" / "mutants"))["MUTANTS"]


def test_what_a_mutant_changes_stands_in_its_file_exactly_once() -> None:
    found = {m.name: (PLUGIN / m.file).read_text().count(m.old) for m in MUTANTS}
    assert {name: times for name, times in found.items() if times != 1} == {}
    assert len(found) == len(MUTANTS) >= 20


def test_a_mutant_is_a_change_and_no_mistake_in_writing() -> None:
    for mutant in MUTANTS:
        assert mutant.new != mutant.old
        if mutant.file.endswith(".py"):
            ast.parse((PLUGIN / mutant.file).read_text().replace(mutant.old, mutant.new))


def test_the_tests_that_ought_to_kill_a_mutant_exist() -> None:
    for path, _, name in {tuple(w.partition("::")) for m in MUTANTS for w in m.tests.split()}:
        assert (PLUGIN / path).exists(), path
        assert not name or re.search(rf"^def {name}\(", (PLUGIN / path).read_text(), re.MULTILINE)
