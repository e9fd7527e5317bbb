"""The class that users write: a torch Dataset whose items are made from input files."""

import inspect
import os
import re
import reprlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from torch.utils.data import Dataset

from splitter.errors import BadResult, Refused, UnreadableInput
from splitter.inputs.fetching import Fetcher, RemoteInput
from splitter.inputs.listing import InputList
from splitter.inputs.locations import look_at
from splitter.inputs.reading import read_source
from splitter.inputs.shards.reader import MemberFiles
from splitter.inputs.source import ListReading
from splitter.inputs.table import InputTable, copy_list
from splitter.records import Expected, InputFile, OutputFile, Scalar, Scratch, UnopenedFile, content_bytes
from splitter.storage.layout import Layout
from splitter.text.urls import is_url

if TYPE_CHECKING:
    from splitter.forecast.forecast import Forecast
    from splitter.outputs.frame import Manifest

Result = tuple[Iterable[OutputFile], Mapping[str, Scalar]]
Sample = TypeVar("Sample")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 100


class ProcessorDataset(Dataset[tuple[tuple[OutputFile, ...], dict[str, Scalar]]]):
    """Input files, and the method that turns each into output files.

    Subclass it and write `process`. Set attributes that the method needs in `__init__`, whose parameters
    become the recipe's options on the command line.

    Attributes:
        version: Increase it when the code changes, so that finished inputs are redone.
        group_rows: Whether all rows with the same path form one input, in `input_file.rows`.
        opens_files: Whether it reads its input files; if not, none is fetched or taken out of a shard.
        needs_programs: Programs that `process` starts; if one is missing, the run is refused.
        metadata_types: Types of metadata keys, if they should not follow from the values.
        num_cpus: CPUs that a batch takes on a Ray cluster.
        num_gpus: GPUs that a batch takes there; a fraction lets several batches share one.
        resources: Other resources of the cluster that a batch takes, by name.
        device: The device of the run: `cpu` or `cuda`.
    """

    version: ClassVar[int | str] = 1
    group_rows: ClassVar[bool] = False
    opens_files: ClassVar[bool] = True
    metadata_types: ClassVar[Mapping[str, type]] = {}
    num_cpus: ClassVar[float] = 1
    num_gpus: ClassVar[float] = 0
    resources: ClassVar[Mapping[str, float]] = {}
    process_batch: Callable[[Sequence[InputFile]], Iterable[Result]] | None = None
    device: str = "cpu"

    needs_programs: Sequence[str] = ()
    parameters: Mapping[str, Any]
    _table: InputTable | None = None
    _ready_in: int | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> "ProcessorDataset":  # noqa: ANN401
        """Note the parameters that the recipe is created with: they are part of each fingerprint."""
        self = super().__new__(cls)
        self.parameters = _parameters(cls, args, kwargs)
        return self

    def __init__(self, inputs: Any = ()) -> None:  # noqa: ANN401 - a path, a list, a table, a dataset
        """Take the inputs: a list file, a folder, a list of paths or rows, a DataFrame, an `InputList`."""
        self.inputs = inputs if isinstance(inputs, InputList) else InputList(inputs)

    def process(self, input_file: InputFile) -> Result:
        """Turn one input file into output files and the metadata of the input."""
        raise NotImplementedError(f"{type(self).__name__} has no method process(self, input_file)")

    def setup(self) -> None:
        """Prepare a worker, once before its first input: load a model here."""

    def check_columns(self, columns: Sequence[str]) -> None:
        """Check the columns of the dataset list, once before any work: raise an error if one is missing."""

    def advise_before_work(self, input_files: Iterable[InputFile]) -> str:  # noqa: ARG002 - as below
        """Look at the first inputs, and return what to tell the user before any work."""
        return ""

    def expect(self, input_file: InputFile) -> Expected | None:  # noqa: ARG002 - for those who override it
        """Return the expected result of an input if its header is enough to tell, else None."""
        return None

    def run(self, output: str | os.PathLike[str], **options: Any) -> "Manifest":  # noqa: ANN401 - see RunOptions
        """Process every input, in parallel, into the folder `output`; `RunOptions` describes the options."""
        from splitter.engine.entry_points import run

        return run(self, output, **options)

    def plan(self, output: str | os.PathLike[str], **options: Any) -> "Forecast":  # noqa: ANN401 - see RunOptions
        """Return what `run` with the same arguments would do, and write nothing."""
        from splitter.forecast.entry_points import plan

        return plan(self, output, **options)

    def __repr__(self) -> str:
        """Describe the recipe, its inputs and the parameters that are not defaults; do not read a list."""
        listing = self.__dict__.get("inputs")
        inputs = [listing.shown()] if isinstance(listing, InputList) else []
        usual = {one.name: one.default for one in recipe_signature(type(self))}
        others = (
            f"{name}={_SHORT.repr(value)}"
            for name, value in self.parameters.items()
            if _SHORT.repr(value) != _SHORT.repr(usual.get(name))
        )
        return f"{type(self).__name__}({', '.join([*inputs, *others])})"

    def __len__(self) -> int:
        """Return the number of inputs."""
        return len(self._opened())

    def __getitem__(self, index: int) -> tuple[tuple[OutputFile, ...], dict[str, Scalar]]:
        """Try one input: return its output files and its metadata, and write nothing."""
        table = self._opened()
        if not -len(table) <= index < len(table):
            raise IndexError(f"input {index} of {len(table)}")
        self.ready()
        input_file = table.input_file(index % len(table), self._layout)
        scratch = input_file.scratch_folder
        fetcher = Fetcher(scratch)
        members = MemberFiles(scratch, fetcher, self._items)
        try:
            input_file = self._here(input_file, fetcher, members)
            outputs, metadata = checked_result(one_at_a_time(self)(input_file))
            return tuple(_in_hand(output, scratch) for output in outputs), dict(metadata)
        finally:
            # this also removes the scratch folder
            members.close()

    def _here(self, input_file: InputFile, fetcher: Fetcher, members: MemberFiles) -> InputFile:
        """Return the input with its file on this machine, fetched or taken out of a shard if necessary."""
        url = input_file.local_path
        index = self._members
        at = int(index.find([url])[0])
        if at in index.faults:
            raise UnreadableInput(index.faults[at])
        if not self.opens_files:
            return UnopenedFile(*input_file)
        member = index.location(at)
        if member is not None:
            fetcher.begin(members.begin({0: member}, 1))
            return members.take(input_file, 0, member)
        if not is_url(url):
            look_at(url)
            return input_file
        fetcher.begin({0: RemoteInput(url, None)})
        return input_file._replace(local_path=fetcher.take(0).path)

    @staticmethod
    def collate_fn(samples: list[Sample]) -> list[Sample]:
        """Return a batch for your own DataLoader: the list of samples, unchanged."""
        return list(samples)

    def ready(self) -> None:
        """Call setup() unless this process has already done so."""
        if self._ready_in != os.getpid():
            refuse_missing_programs(self)
            self.setup()
            self._ready_in = os.getpid()

    def _opened(self) -> InputTable:
        if self._table is None:
            source = read_source(inputs_of(self), ListReading(group_rows=self.group_rows))
            refuse_columns(self, source.header)
            # a file without a name: it disappears with the process
            file = tempfile.TemporaryFile()  # noqa: SIM115
            self._table = copy_list(source.header, source.rows, file, source.column)
            weakref.finalize(self._table, file.close)
            self._layout, self._members = Layout(source.root), source.reading.members.in_order()
            self._items = source.reading.items
            if self.group_rows:
                from splitter.inputs.survey import survey

                survey(self._table, self._layout, source.reading)
        return self._table

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes, except those that only this process can use."""
        own = ("_table", "_members", "_items", "_ready_in")
        state = {name: value for name, value in self.__dict__.items() if name not in own}
        return state | {name: getattr(self, name) for name in _slots(type(self)) if hasattr(self, name)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the attributes, including those in `__slots__`."""
        for name, value in state.items():
            setattr(self, name, value)


def _slots(cls: type) -> list[str]:
    """Return the attributes that a class or its bases keep outside `__dict__`."""
    found = [vars(base).get("__slots__", ()) for base in cls.__mro__]
    names = [[slots] if isinstance(slots, str) else slots for slots in found]
    return [name for some in names for name in some if name not in ("__dict__", "__weakref__")]


def one_at_a_time(dataset: ProcessorDataset) -> Callable[[InputFile], Any]:
    """Return the function that processes one input: `process`, or `process_batch` with a batch of one."""
    together = dataset.process_batch
    if together is None or type(dataset).process is not ProcessorDataset.process:
        return dataset.process

    def alone(input_file: InputFile) -> Any:  # noqa: ANN401 - whatever a user's method gave
        results = list(together([input_file]))
        if len(results) != 1:
            raise BadResult(f"process_batch gave {len(results)} results for 1 input")
        return results[0]

    return alone


def _in_hand(output: Any, scratch: Scratch) -> OutputFile:  # noqa: ANN401 - whatever a user's method gave
    """Return an output that outlives the scratch folder, and can be sent to another process."""
    if not isinstance(output, OutputFile):
        raise BadResult(f"process returned a {type(output).__name__} among its outputs; expected OutputFile")
    content = output.content
    if isinstance(content, os.PathLike) and scratch.holds(os.fsdecode(content)):
        with open(content, "rb") as file:
            content = file.read()
    elif callable(content):
        content = content_bytes(content)
    # the default metadata is a read-only view, which cannot be pickled
    return output._replace(content=content, metadata=dict(output.metadata))


def recipe_signature(recipe: type[ProcessorDataset]) -> list[inspect.Parameter]:
    """Return the parameters that a recipe's own `__init__` takes after the inputs."""
    return list(inspect.signature(recipe.__init__).parameters.values())[2:]


def _parameters(cls: type[ProcessorDataset], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    try:
        bound = inspect.signature(cls.__init__).bind(None, *args, **kwargs)
    except TypeError:
        # __init__ comes next and gives a better message; unpickling creates the object without arguments
        return {}
    bound.apply_defaults()
    given = dict(list(bound.arguments.items())[2:])
    for parameter in recipe_signature(cls):
        # 10 and 10.0 are the same value for a float, however they were passed
        if type(given.get(parameter.name)) is int and _is_float(parameter.annotation):
            given[parameter.name] = float(given[parameter.name])
    return given


def _is_float(annotation: Any) -> bool:  # noqa: ANN401 - a type, or its text
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return "float" in text and "int" not in text


def checked_result(result: Any) -> Result:  # noqa: ANN401 - whatever a user's method gave
    """Return the result of process() if it follows the contract."""
    if isinstance(result, tuple) and len(result) == 2:  # noqa: PLR2004
        outputs, metadata = result
        files = hasattr(outputs, "__iter__") and not isinstance(outputs, (str, bytes, dict, OutputFile))
        if files and isinstance(metadata, (dict, Mapping)):
            return outputs, metadata
        if isinstance(outputs, OutputFile):
            raise BadResult(
                "process returned an OutputFile, not a list of them; write: return [OutputFile(...)], {}"
            )
    raise BadResult(
        f"process returned {_described(result)}; expected (output files, metadata), such as: "
        "return [OutputFile(...)], {}"
    )


def _described(value: Any) -> str:  # noqa: ANN401 - whatever a user's method gave
    if value is None:
        return "None"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a user's __repr__ may do anything
        text = "…"
    kind = type(value).__name__
    # memory addresses differ from run to run
    text = re.sub(" at 0x[0-9a-f]+", "", text)[:100]
    return text if text.startswith(f"{kind}(") else f"{kind} {text}"


def inputs_of(dataset: ProcessorDataset) -> InputList:
    """Return the inputs of a recipe; refuse one whose `__init__` did not pass them on."""
    inputs = getattr(dataset, "inputs", None)
    if not isinstance(inputs, InputList):
        name = type(dataset).__name__
        raise Refused(
            f"{name}: its __init__ must call super().__init__(inputs), and not set self.inputs itself"
        )
    return inputs


def refuse_hidden(columns: Sequence[str], keys: Collection[str]) -> None:
    """Refuse a list with columns that metadata of the same name would hide."""
    hidden = [name for name in columns if name in keys]
    if hidden:
        raise Refused(
            f"the dataset list has a column {hidden[0]!r}, which metadata of the recipe would hide; use "
            + " ".join(f"--rename {name}=NEW" for name in hidden)
        )


def refuse_columns(dataset: ProcessorDataset, columns: Sequence[str]) -> None:
    """Refuse a list that lacks a column that the recipe needs, or has one that its metadata would hide."""
    refuse_hidden(columns, dataset.metadata_types)
    try:
        dataset.check_columns(tuple(columns))
    except Refused:
        raise
    except (Exception, SystemExit) as error:
        name = type(dataset).__name__
        raise Refused(f"{name}: {error}" if str(error) else f"{name}: {type(error).__name__}") from error


def refuse_missing_programs(dataset: ProcessorDataset) -> None:
    """Refuse a recipe that starts a program that is not on this machine."""
    for program in dataset.needs_programs:
        if shutil.which(program) is None:
            raise Refused(f"{program!r}: there is no such program to run; install it, or write its full path")


def advice_of(dataset: ProcessorDataset, input_files: Iterable[InputFile]) -> str:
    """Return what a recipe tells the user before any work; refuse the recipe if that raises an error."""
    try:
        return dataset.advise_before_work(input_files)
    except Refused:
        raise
    except Exception as error:
        name = type(dataset).__name__
        raise Refused(f"{name}: advise_before_work raised {type(error).__name__}: {error}") from error


def _check_process(dataset: ProcessorDataset, name: str) -> None:
    """Refuse a recipe without a method to process an input, or with one that takes other arguments."""
    alone, together = dataset.process, dataset.process_batch
    is_inherited = getattr(alone, "__func__", None) is ProcessorDataset.process
    if is_inherited and together is None:
        raise Refused(f"{name}: has no method process(self, input_file); write one")
    for method, argument in ((None if is_inherited else alone, "input_file"), (together, "input_files")):
        if method is None:
            continue
        called = getattr(method, "__name__", "process")
        try:
            inspect.signature(method).bind(None)
        except TypeError as error:
            raise Refused(
                f"{name}: {called} cannot be called ({error}); write {called}(self, {argument})"
            ) from None
        except ValueError:
            # a function in C has no signature
            continue


def check_parameters(dataset: ProcessorDataset, option_names: Iterable[str]) -> None:
    """Refuse a parameter with the name of a run option, and attributes of the wrong type."""
    name = type(dataset).__name__
    for parameter in recipe_signature(type(dataset)):
        if parameter.name in set(option_names):
            raise Refused(f"{name}: its parameter {parameter.name!r} is the name of a run option; rename it")
    _check_process(dataset, name)
    types: object = dataset.metadata_types
    if not isinstance(types, Mapping):
        raise Refused(f"{name}: metadata_types is {types!r:.100}; expected a dict of names and types")
    for key, kind in types.items():
        if not isinstance(key, str):
            raise Refused(f"{name}: metadata_types has the key {key!r:.100}; expected the name of metadata")
        if kind not in (str, int, float, bool):
            raise Refused(f"{name}: metadata_types[{key!r}] is {kind!r}; expected str, int, float or bool")
    if not isinstance(dataset.version, (str, int, float)):
        raise Refused(f"{name}: version is {dataset.version!r:.100}; expected a number or text")
    for attribute in ("group_rows", "opens_files"):
        value = getattr(dataset, attribute)
        if not isinstance(value, bool):
            raise Refused(f"{name}: {attribute} is {value!r:.100}; expected True or False")
    inputs_of(dataset)
