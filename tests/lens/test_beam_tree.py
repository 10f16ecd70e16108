"""The tree of a search: nothing in it is made up, and the best path is the translation."""

import pytest
import torch

from regard.decoding import DecodingOptions, gnmt
from regard.lens import Lens
from regard.lens.beam_tree import BeamTree, Node
from regard.text import Tokenizer

from .conftest import LensMaker

SHORT = "the animal"


@pytest.fixture(scope="module", params=[0.0, 0.8], ids=["limit", "end"])
def lens(request: pytest.FixtureRequest, make_lens: LensMaker) -> Lens:
    """One that goes on to the limit, and one that ends by itself."""
    return make_lens(norm="pre", ends=request.param)


@pytest.fixture(scope="module", params=[1, 2, 4])
def tree(request: pytest.FixtureRequest, lens: Lens) -> BeamTree:
    found = lens.look(SHORT, beam=request.param).beam
    assert found is not None
    return found


def parent(tree: BeamTree, node: Node) -> Node:
    assert node.parent is not None
    return tree.nodes[node.parent]


def test_totals_add_up_from_the_root(tree: BeamTree) -> None:
    root, *others = tree.nodes
    assert (root.id, root.parent, root.step, root.text, root.total, root.kept) == (0, None, 0, "<s>", 0.0, True)
    for number, node in enumerate(others, start=1):
        above = parent(tree, node)
        assert node.id == number
        assert above.id < node.id
        assert node.step == above.step + 1
        assert node.total == pytest.approx(above.total + node.log_prob, abs=1e-4)


def test_only_what_was_kept_and_not_finished_goes_on(tree: BeamTree) -> None:
    for node in tree.nodes[1:]:
        above = parent(tree, node)
        assert above.kept
        assert above.text != "</s>"
    for step in range(1, tree.nodes[-1].step + 1):
        here = [node for node in tree.nodes if node.step == step]
        assert len(here) == 2 * tree.width
        going = [node for node in here if node.kept and node.text != "</s>"]
        assert len(going) == tree.width
        dropped = [node.total for node in here if not node.kept and node.text != "</s>"]
        assert max(dropped, default=float("-inf")) <= min(node.total for node in going)


def test_the_best_path_is_the_translation_and_has_the_best_score(lens: Lens, tree: BeamTree) -> None:
    look = lens.look(SHORT, beam=tree.width)
    path = [node for node in tree.nodes if node.best]
    assert [node.text for node in path] == look.target.outputs.labels("pieces")
    assert [node.step for node in path] == list(range(1, len(path) + 1))
    assert [parent(tree, node) for node in path[1:]] == path[:-1]
    last = path[-1]
    assert last.finished
    assert last.score == max(node.score for node in tree.nodes if node.score is not None)
    assert last.score == pytest.approx(last.total / gnmt(last.step, DecodingOptions().length_penalty))
    assert last.total == pytest.approx(look.log_probability, abs=1e-3)
    assert all((node.score is not None) == node.finished for node in tree.nodes)


def test_each_number_is_what_the_model_says_of_that_beginning(make_lens: LensMaker, tokenizer: Tokenizer) -> None:
    lens = make_lens(seed=5)
    tree = lens.look("one two", beam=3).beam
    assert tree is not None
    ids = {tokenizer.piece(i): i for i in range(tokenizer.size)}
    for node in tree.nodes[1:60]:
        path = [node]
        while path[0].parent:
            path.insert(0, parent(tree, path[0]))
        symbols = [ids[one.text] for one in path]
        src = [[*tokenizer.encode("one two"), tokenizer.eos_id]]
        tgt = [[tokenizer.bos_id, *symbols[:-1]]]
        log_probs = lens.loaded.model(torch.tensor(src), torch.tensor(tgt))[0, -1].detach().log_softmax(-1)
        assert node.log_prob == pytest.approx(float(log_probs[symbols[-1]]), abs=1e-4)
