"""State: what training goes on from, and how a rank takes another one's."""

import copy
import hashlib
import inspect
from typing import Any, Callable, Dict, List, Optional, Protocol

import torch

from . import dist
from ._sampler import Sampler


class Driver(Protocol):
    """What the state asks of the run that it is in."""

    def check(self) -> None:
        """Raises if the gradients may not be those of all ranks."""

    def committed(self, loss: Optional[float],
                  tokens_per_second: Optional[float]) -> None:
        """A step is done. May raise, where all stop."""


class State:
    """What training goes on from: a model; an optimizer, or a list of them; a
    sampler; a learning rate scheduler, or a list of them, which `commit` steps; a
    GradScaler, whose `step` and `update` `commit` calls in the optimizer's place;
    and plain values, which are its attributes (`State(..., best=0.0)`,
    `state.best`).

    `step`: how many are done. `rank`, `size`: of this process in the world.
    `state_dict` and `load_state_dict` are for checkpoints; load one before
    `run`'s function is called, on all ranks or on one.

    ValueError: a name is taken, a value is not plain, or `commit` cannot step an
    optimizer or a scheduler, since its `step` needs arguments.
    """

    _OWN = ("model", "optimizers", "sampler", "schedulers", "scaler", "step",
            "rank", "size", "_values", "_kept", "_buffers", "_buffers_kept",
            "_stepped", "_torn", "_committing", "_driver")
    # The names of arguments whose attributes are lists.
    _LISTS = {"optimizer": "optimizers", "scheduler": "schedulers"}

    def __init__(self, model: Any = None, optimizer: Any = None,
                 sampler: Optional[Sampler] = None, scheduler: Any = None,
                 scaler: Any = None, **values: Any) -> None:
        for name, value in values.items():
            if name in State._OWN or hasattr(State, name):
                raise ValueError(f"State: {name} is a name of its own; choose "
                                 "another one")
            if hasattr(value, "state_dict"):
                raise ValueError(f"State: {name} is no plain value; give its "
                                 "state_dict(), and load it in the function")
        self.model = model
        self.optimizers = _list_of(optimizer)
        self.sampler = sampler
        self.schedulers = _list_of(scheduler)
        self.scaler = scaler
        self.step, self.rank, self.size = 0, 0, 1
        self._committing = False
        self._values = values
        self._driver: Optional[Driver] = None
        # Optimizers that the training function has stepped itself.
        self._stepped: List[Any] = []
        # A part of a step, or of another rank's state, is applied.
        self._torn = False
        for one in self.optimizers + self.schedulers:
            needed = _needed_by(type(one).step)
            if needed is not None:
                raise ValueError(
                    f"State: commit calls {type(one).__name__}.step() without "
                    f"arguments, and it needs `{needed}`; step it in the "
                    "training function, and keep its state_dict() as a value")
        for one in self.optimizers:
            if hasattr(one, "register_step_pre_hook"):  # torch 2
                one.register_step_pre_hook(self._before_step)
        self.enter()

    def __getattr__(self, name: str) -> Any:
        if name in State._LISTS:
            raise AttributeError(_no_attribute(name))
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(f"State has no {name}; give it to "
                                 f"State(..., {name}=...)") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name in State._LISTS:
            raise AttributeError(_no_attribute(name))
        if name in State._OWN:
            object.__setattr__(self, name, value)
        else:
            self._values[name] = value

    def commit(self, loss: Optional[float] = None,
               tokens_per_second: Optional[float] = None) -> None:
        """The gradients of a step are in: applies them (`optimizer.step()`, where
        that was not called already), and counts the step. Call it once in each
        step, after `backward`; the step is reported to `rollcall status`.

        Raises what `run` catches if the world has ended: nothing is applied
        then.
        """
        if self.sampler is not None and not self.sampler.given:
            raise ValueError("State: commit is called without a new batch of the "
                             "sampler; call it once for each batch")
        left = [one for one in self.optimizers if one not in self._stepped]
        # What the function has applied itself was checked before that. Once it
        # has applied all, the step is done, whether the world has ended or not.
        if self._driver is not None and (left or not self.optimizers):
            self._driver.check()
        self._committing = True
        try:
            self._torn = True
            for one in left:
                one.step() if self.scaler is None else self.scaler.step(one)
            if self.scaler is not None and left:
                self.scaler.update()
            for one in self.schedulers:
                one.step()
        finally:
            self._committing = False
        for one in self.optimizers:
            one.zero_grad(set_to_none=True)
        if self.sampler is not None:
            self.sampler.advance()
        self.step += 1
        self._keep()
        if self._driver is not None:
            self._driver.committed(loss, tokens_per_second)

    def state_dict(self) -> Dict[str, Any]:
        return {
            **self._parts(),
            "values": copy.deepcopy(self._values),
            "model": self.model.state_dict() if self.model is not None else None,
        }

    def _parts(self) -> Dict[str, Any]:
        """All but the model, not copied."""
        return {
            "step": self.step,
            "values": self._values,
            "sampler": self.sampler.state() if self.sampler else None,
            "optimizers": [one.state_dict() for one in self.optimizers],
            "others": [one.state_dict() for one in self._others()],
        }

    def _others(self) -> List[Any]:
        return self.schedulers + _list_of(self.scaler)

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self._values.update(copy.deepcopy(state["values"]))
        if self.model is not None:
            self.model.load_state_dict(state["model"])
        self._load(state)
        self.enter()

    def _load(self, state: Dict[str, Any]) -> None:
        """All but the model and the values."""
        self.step = int(state["step"])
        if self.sampler is not None and state["sampler"] is not None:
            self.sampler.load(state["sampler"])
        for one, saved in zip(self.optimizers, state["optimizers"]):
            one.load_state_dict(saved)
        for one, saved in zip(self._others(), state["others"]):
            one.load_state_dict(saved)

    def shape(self) -> Dict[str, str]:
        """What must be the same on all ranks, part by part: each as a text, or
        as a digest of one."""
        model = [] if self.model is None else [
            (name, tuple(value.shape), str(value.dtype))
            for name, value in self.model.state_dict().items()
            if isinstance(value, torch.Tensor) and not _is_extra(name)]
        others = [[type(one).__name__,
                   [len(group["params"]) for group in one.param_groups]]
                  for one in self.optimizers]
        others.append([type(one).__name__ for one in self._others()])
        return {
            "model": _digest(model), "optimizers and schedulers": _digest(others),
            "sampler": self.sampler.settings() if self.sampler else "none",
        }

    # --- A step that is not done yet ------------------------------------------

    @property
    def whole(self) -> bool:
        """No optimizer has changed anything since the last commit."""
        return not self._stepped and not self._torn

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        """The function steps an optimizer itself."""
        # Without gradients (after `commit`, say) nothing changes.
        if self._committing or not _has_gradients(optimizer):
            return
        if self._driver is not None:
            self._driver.check()
        if optimizer in self._stepped:
            raise ValueError("State: an optimizer steps a second time without "
                             "state.commit(); call commit after each step")
        self._stepped.append(optimizer)

    def check_returned(self, step: int) -> None:
        """The training function has returned; it was entered at `step`."""
        if not self.whole or (step == self.step and any(
                map(_has_gradients, self.optimizers))):
            raise ValueError("elastic: the function has returned with a step that "
                             "is not committed; call state.commit() after each "
                             "backward")

    def enter(self) -> None:
        """A world begins; `run` calls it."""
        # What forward changes (running means), and not the weights. Walking
        # through the model at each step would cost more than the rest.
        self._buffers = [] if self.model is None else list(self.model.buffers())
        self._keep()

    def _keep(self) -> None:
        self._stepped, self._torn = [], False
        self._kept = copy.deepcopy(self._values) if self._values else {}
        self._buffers_kept = [buffer.detach().clone()
                              for buffer in self._buffers]

    def undo(self) -> None:
        """Back to the last commit. `run` calls it."""
        self._values = copy.deepcopy(self._kept)
        with torch.no_grad():
            for buffer, kept in zip(self._buffers, self._buffers_kept):
                buffer.copy_(kept)
        for one in self.optimizers:
            one.zero_grad(set_to_none=True)
        if self.scaler is not None:
            # It forgets that it has unscaled gradients which are given up now.
            try:
                self.scaler.update(self.scaler.get_scale())
            except AssertionError:
                pass  # It has scaled nothing yet.


def _no_attribute(name: str) -> str:
    return (f"State has no {name}; use state.{State._LISTS[name]}, a list of all "
            "that were given to it")


def _digest(what: Any) -> str:
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]


def _has_gradients(optimizer: Any) -> bool:
    return any(parameter.grad is not None for group in optimizer.param_groups
               for parameter in group["params"])


def _list_of(one: Any) -> List[Any]:
    if one is None:
        return []
    return list(one) if isinstance(one, (list, tuple)) else [one]


def _needed_by(step: Any) -> Optional[str]:
    """The first argument that a method needs; None: it can be called without.
    Asked of the class: a scheduler wraps the method of its optimizer."""
    for one in list(inspect.signature(step).parameters.values())[1:]:
        if one.default is one.empty and one.kind not in (
                one.VAR_POSITIONAL, one.VAR_KEYWORD):
            return one.name
    return None


class _Slot:
    """Placeholder of a tensor that is sent separately."""

    def __init__(self, tensor: Any) -> None:
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype
        # As an optimizer's count of steps, where its weights are on a GPU.
        self.on_host = not tensor.is_cuda


def send_state(state: State, source: int, sends: bool, device: Any,
               alike: bool, check: Callable[[], None]) -> None:
    """All ranks call it: those whose state does not count take that of `source`.
    `alike`: this rank's is the same. Nothing is applied before `check` returns:
    in a group of this process alone a broadcast gives no data and no error."""
    tensors: List[Any] = []
    apart: List[Any] = [None]
    if sends:
        apart[0] = _take_apart(
            {**state._parts(), "extra": _extra_state(state.model)}, tensors)
    dist.broadcast_object_list(apart, src=source)
    model = _model_tensors(state.model)
    received = []
    for tensor in model:
        # A copy, where it is taken only once all is there.
        sent = tensor.to(device).contiguous() if sends else torch.empty(
            tensor.shape, dtype=tensor.dtype, device=device)
        _broadcast(sent, source)
        received.append(sent)
    if sends:
        for tensor in tensors:
            _broadcast(tensor.detach().to(device).contiguous(), source)
    got = None if sends else _put_together(apart[0], source, device)
    check()
    if got is None or alike:
        return
    state._torn = True  # Until all of it is taken.
    for tensor, sent in zip(model, received):
        tensor.copy_(sent)
    if got["extra"]:
        state.model.load_state_dict(got["extra"], strict=False)
    state._values = got["values"]
    state._load(got)
    state._keep()


def _broadcast(tensor: Any, source: int) -> None:
    """As bytes: the backends lack some types (int16, float8). Requires that the
    tensor is contiguous."""
    if tensor.numel() != 0:
        dist.broadcast(tensor.view(-1).view(torch.uint8), src=source)


def _model_tensors(model: Any) -> List[Any]:
    """All that a module keeps, but for what it makes by `get_extra_state`."""
    if model is None:
        return []
    return [value.detach() for name, value in model.state_dict().items()
            if isinstance(value, torch.Tensor) and not _is_extra(name)]


def _extra_state(model: Any) -> Dict[str, Any]:
    if model is None:
        return {}
    return {name: value for name, value in model.state_dict().items()
            if _is_extra(name)}


def _is_extra(name: str) -> bool:
    return name.rpartition(".")[2] == "_extra_state"


def _take_apart(value: Any, tensors: List[Any]) -> Any:
    """A copy of `value` without its tensors, which are appended to `tensors`."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return _Slot(value)
    return _map(value, lambda one: _take_apart(one, tensors))


def _put_together(value: Any, source: int, device: Any) -> Any:
    if isinstance(value, _Slot):
        tensor = torch.empty(value.shape, dtype=value.dtype, device=device)
        _broadcast(tensor, source)
        return tensor.cpu() if value.on_host else tensor
    return _map(value, lambda one: _put_together(one, source, device))


def _map(value: Any, of: Callable[[Any], Any]) -> Any:
    """A container of the same class with of(each); `value` itself, if it is no
    container."""
    if isinstance(value, dict):
        result = copy.copy(value)  # Keeps the class and its attributes.
        for key, one in value.items():
            result[key] = of(one)
        return result
    if type(value) in (list, tuple):
        return type(value)(of(one) for one in value)
    return value
