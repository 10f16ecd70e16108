"""ES modules joined into one script: a page that is mailed around can not load files beside it.

The modules keep to a few rules, so that no build tool is needed: an import is one line that names what it takes,
an export stands before its declaration, and top-level names are unique over all files.
"""

import re
from collections.abc import Mapping

_IMPORT = re.compile(r'^import \{ [\w, ]+ \} from "\./([\w.]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) )", re.MULTILINE)
_NAME = re.compile(r"^(?:async function|function|class|const|let) (\w+)", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def bundle(entry: str, modules: Mapping[str, str]) -> str:
    """The module `entry` and everything it needs, each after what it imports."""
    order: list[str] = []
    _visit(entry, modules, order, set())
    plain = {name: _EXPORT.sub("", _IMPORT.sub("", modules[name])).strip() for name in order}
    homes: dict[str, str] = {}
    for name, text in plain.items():
        if found := _LEFT.search(text):
            raise ValueError(f"{name} has an import or export that can not be joined: {found[0]}")
        for declared in _NAME.findall(text):
            if homes.setdefault(declared, name) != name:
                raise ValueError(f"{declared} is declared in {homes[declared]} and in {name}")
    return "\n\n".join(plain.values()) + "\n"


def _visit(name: str, modules: Mapping[str, str], order: list[str], seen: set[str]) -> None:
    if name in seen:
        return
    seen.add(name)
    if name not in modules:
        raise ValueError(f"there is no module {name}")
    for needed in _IMPORT.findall(modules[name]):
        _visit(needed, modules, order, seen)
    order.append(name)
