"""What every recipe should do: inherit the suite in a test file, and give the recipe and some inputs.

class TestShout(RecipeConformance):
    recipe = Shout
    parameters = {"mark": "?"}

    def inputs(self, folder):
        (folder / "a.txt").write_text("simple")
"""

import inspect
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from splitter import ProcessorDataset, verify
from splitter.cli.options import recipe_option
from splitter.options import RunOptions
from splitter.recipes.parameters import first_line, recipe_parameters
from splitter.testing.published import published, read_table


class RecipeConformance:
    """Tests of a recipe; they need a few inputs that it can process, and take a few seconds.

    Attributes:
        recipe: The class.
        parameters: Its parameters, besides the inputs.
    """

    recipe: ClassVar[type[ProcessorDataset]]
    parameters: ClassVar[Mapping[str, Any]] = {}

    def inputs(self, folder: Path) -> None:
        """Write some inputs, such as ten small ones of different kinds, into a folder."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _in_a_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "it's a naïve folder"
        self.folder.mkdir()
        self.inputs(self.folder)
        self.output = tmp_path / "outputs"

    def run(self, output: Path, **options: Any) -> dict[str, bytes]:
        """Return all that a run publishes."""
        self.recipe(self.folder, **self.parameters).run(output, quiet=True, **options)
        return published(output)

    def test_the_command_line_shows_it(self) -> None:
        """The help describes the recipe and each parameter, and no parameter has the name of a run option."""
        assert first_line(self.recipe)
        parameters = recipe_parameters(self.recipe)
        assert [one.name for one in parameters] == list(inspect.signature(self.recipe).parameters)[1:]
        for parameter in parameters:
            assert parameter.help, f"Args: in the docstring says nothing of {parameter.name}"
            assert parameter.name not in RunOptions.__dataclass_fields__
            assert recipe_option(parameter).opts

    def test_it_goes_to_other_processes(self) -> None:
        dataset = self.recipe(self.folder, **self.parameters)
        assert pickle.loads(pickle.dumps(dataset)).parameters == dataset.parameters

    def test_an_input_can_be_tried(self) -> None:
        """Each try gives the same outputs, and nothing is written."""
        dataset = self.recipe(self.folder, **self.parameters)
        before = sorted(self.folder.rglob("*"))
        assert dataset[0] == dataset[0]
        assert sorted(self.folder.rglob("*")) == before

    def test_workers_and_batch_size_do_not_show(self) -> None:
        """All inputs are done, with the same bytes each time, also when `verify --deep` makes them again."""
        whole = self.run(self.output, workers=0, batch_size=1)
        assert "errors.csv" not in whole, read_table(self.output / "errors.csv")
        assert whole == self.run(self.output.parent / "others", workers=2, batch_size=100)
        verdict = verify(self.output, deep="all", recipe=self.recipe(self.folder, **self.parameters))
        assert verdict.exit_code == 0, verdict.to_json()

    @pytest.mark.parametrize("sink", ["webdataset", "parquet"])
    def test_its_outputs_fit_into_shards(self, sink: str) -> None:
        """Their metadata has the same types throughout, or declares them."""
        assert "errors.csv" not in self.run(self.output, workers=0, sink=sink), read_table(
            self.output / "errors.csv"
        )
