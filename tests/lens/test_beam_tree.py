"""The tree of a beam search has the model's own numbers, and its best path is the translation."""

import pytest
import torch

from regard.decoding import DecodingOptions, gnmt
from regard.lens import Lens
from regard.lens.beam_tree import BeamNode, BeamTree
from regard.text import Tokenizer

from .conftest import LensMaker

SHORT = "the animal"


@pytest.fixture(scope="module", params=[0.0, 0.8], ids=["limit", "end"])
def lens(request: pytest.FixtureRequest, make_lens: LensMaker) -> Lens:
    """One model that runs into the length limit, and one that produces the end token."""
    return make_lens(norm="pre", ends=request.param)


@pytest.fixture(scope="module", params=[1, 2, 4])
def tree(request: pytest.FixtureRequest, lens: Lens) -> BeamTree:
    tree = lens.look(SHORT, beam=request.param).beam
    assert tree is not None
    return tree


def parent(tree: BeamTree, node: BeamNode) -> BeamNode:
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


def test_only_kept_unfinished_nodes_have_children(tree: BeamTree) -> None:
    for node in tree.nodes[1:]:
        above = parent(tree, node)
        assert above.kept
        assert above.text != "</s>"
    for step in range(1, tree.nodes[-1].step + 1):
        at_step = [node for node in tree.nodes if node.step == step]
        assert len(at_step) == 2 * tree.width
        live = [node for node in at_step if node.kept and node.text != "</s>"]
        assert len(live) == tree.width
        dropped = [node.total for node in at_step if not node.kept and node.text != "</s>"]
        assert max(dropped, default=float("-inf")) <= min(node.total for node in live)


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


def test_log_probabilities_equal_the_models_for_each_prefix(make_lens: LensMaker, tokenizer: Tokenizer) -> None:
    lens = make_lens(seed=5)
    tree = lens.look("one two", beam=3).beam
    assert tree is not None
    ids = {tokenizer.piece(i): i for i in range(tokenizer.size)}
    for node in tree.nodes[1:60]:
        path = [node]
        while path[0].parent:
            path.insert(0, parent(tree, path[0]))
        tokens = [ids[node.text] for node in path]
        src = [[*tokenizer.encode("one two"), tokenizer.eos_id]]
        tgt = [[tokenizer.bos_id, *tokens[:-1]]]
        log_probs = lens.loaded.model(torch.tensor(src), torch.tensor(tgt))[0, -1].detach().log_softmax(-1)
        assert node.log_prob == pytest.approx(float(log_probs[tokens[-1]]), abs=1e-4)
