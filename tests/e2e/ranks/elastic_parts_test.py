"""Parts of rollcall.torch.elastic in one process without an agent: the sampler,
the state, and what it does to PyTorch.

The programs of WithoutAgent run with Debian's torch, those of CurrentTorch with
that of the virtual environment.
"""
import unittest

from rank_elastic_test import ElasticTest
from rank_python_test import ENVIRONMENT
from with_torch import PYTHON, WithTorch

SAMPLES = """
from rollcall.torch.elastic import Sampler

def epoch(sizes, **options):
    \"\"\"All shares of one epoch, the world having another size at each step.\"\"\"
    order, at = [], 0
    state, sampler = None, Sampler(seed=3, **options)
    while sampler.epoch == 0:
        size = sizes[at % len(sizes)]
        batch, weights = [], 0
        for rank in range(size):
            one = Sampler(seed=3, **options)
            one.load(sampler.state())
            one.enter(rank, size)
            share = next(iter(one))
            assert share
            batch += share if one.weight else []
            weights += one.weight
        assert abs(weights - size) < 1e-9
        order.append(batch)
        sampler.enter(0, 1)
        assert next(iter(sampler)) == batch
        sampler.advance()
        at += 1
    return order

for sizes in ([1], [3], [2, 5, 1, 7], [9, 2]):
    order = epoch(sizes, length=100, batch=7, drop_last=False)
    assert sorted(sum(order, [])) == list(range(100)) and len(order) == 15
    assert order == epoch([1], length=100, batch=7, drop_last=False)
    order = epoch(sizes, length=100, batch=7)
    assert len(order) == 14 and len(set(sum(order, []))) == 98
plain = Sampler(6, 2, epochs=2, shuffle=False)
assert plain.epoch == 0
got = []
for share in plain:
    got.append(share)
    plain.advance()
assert got == [[0, 1], [2, 3], [4, 5]] * 2 and plain.epoch == 2
# What no commit has followed is given again, and not passed over.
again = Sampler(6, 2, shuffle=False)
assert next(iter(again)) == [0, 1]
again.enter(0, 1)
assert next(iter(again)) == [0, 1]
try:
    next(iter(again))
    raise SystemExit("passed over")
except ValueError as error:
    assert "state.commit()" in str(error)
for wrong in ((0, 1), (5, 0), (5, 6), (5, 1, -1)):
    try:
        Sampler(*wrong)
        raise SystemExit(f"took {wrong}")
    except ValueError:
        pass
print("sampled")
"""

# A checkpoint of a state is taken by another one, and all that follows is the same.
LOADS = """
import copy
import torch
from rollcall.torch import elastic
def made():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    optimizers = [torch.optim.AdamW(model[0].parameters(), lr=0.1),
                  torch.optim.SGD(model[1].parameters(), lr=0.1, momentum=0.5)]
    schedulers = [torch.optim.lr_scheduler.StepLR(one, 2) for one in optimizers]
    return elastic.State(model, optimizers, elastic.Sampler(64, 8),
                         schedulers, best=[0.0])
data = torch.rand(64, 4)
def trained(state, until):
    for indices in state.sampler:
        loss = (state.model(data[indices]) - 1).square().mean()
        loss.backward()
        state.best.append(loss.item())
        state.commit()
        if state.step == until:
            break
    rates = [one.param_groups[0]["lr"] for one in state.optimizers]
    return (state.step, state.best, rates, [
        one.tolist() for one in state.model.state_dict().values()])
first, second = made(), made()
trained(first, 3)
saved = copy.deepcopy(first.state_dict())
plain = first.state_dict()["values"]["best"]
whole = trained(first, 7)
assert len(plain) == 4  # A copy.
second.load_state_dict(saved)
assert trained(second, 7) == whole
assert max(whole[2]) < 0.0002, whole[2]
for use in (lambda: first.optimizer, lambda: setattr(first, "scheduler", None)):
    try:
        use()
        raise SystemExit("has it")
    except AttributeError as error:
        assert "s, a list" in str(error), error
print("loaded")
"""

NEEDS = """
import torch
from rollcall.torch import elastic
@elastic.run
def train(state):
    pass
try:
    train(elastic.State(best=1))
except RuntimeError as error:
    assert "2.14" in str(error) and torch.__version__ in str(error), error
    print("said")
"""

# What a state asks, and a test answers.
DRIVER = """
import torch
from rollcall.torch import elastic
class Driver:
    over = False
    def check(self):
        if self.over:
            raise RuntimeError("over")
    def committed(self, *_):
        pass
driver = Driver()
"""

# The function steps one of two optimizers itself.
STEPS = DRIVER + """
weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
optimizers = [torch.optim.SGD([one], lr=1.0) for one in weights]
state = elastic.State(optimizer=optimizers)
state._driver = driver
def values():
    return [one.item() for one in weights]
for step in range(2):
    sum(weights).backward()
    assert state.whole
    optimizers[0].step()
    assert not state.whole and values() == [-step - 1.0, -step]
    state.commit()
    assert state.whole and values() == [-step - 1.0] * 2
    # Without gradients nothing changes.
    optimizers[0].step()
    assert state.whole and values() == [-step - 1.0] * 2
sum(weights).backward()
driver.over = True
try:
    optimizers[0].step()
    raise SystemExit("stepped after the end")
except RuntimeError:
    assert state.whole and values() == [-2.0] * 2 and state.step == 2
# The world ends after the function has stepped both: the step is done.
state.undo()
driver.over = False
sum(weights).backward()
for one in optimizers:
    one.step()
try:
    optimizers[0].step()
    raise SystemExit("stepped twice")
except ValueError as error:
    assert "call commit after each step" in str(error), error
driver.over = True
state.commit()
assert state.whole and values() == [-3.0] * 2 and state.step == 3
for needs, argument in ((dict(optimizer=torch.optim.LBFGS(weights)), "closure"),
                        (dict(scheduler=torch.optim.lr_scheduler.ReduceLROnPlateau(
                            optimizers[0])), "metrics")):
    try:
        elastic.State(**needs)
        raise SystemExit(f"takes {needs}")
    except ValueError as error:
        assert f"`{argument}`" in str(error), error
print("stepped")
"""

# Rank 0 takes what rank 1 has, of types that no backend sends and of classes that
# are their own.
SENDS = """
import collections, os, sys, tempfile
import torch, torch.distributed as dist
from rollcall.torch import elastic
from rollcall.torch._state import send_state
class Module(torch.nn.Linear):
    def __init__(self, value):
        super().__init__(2, 2, bias=False)
        torch.nn.init.constant_(self.weight, value)
        self.register_buffer("short", torch.full((3,), value, dtype=torch.int16))
        self.register_buffer("bit", torch.tensor(value > 1))
        self.register_buffer("none", torch.zeros(0, dtype=torch.int16))
        self.extra = {"t": torch.tensor(value, dtype=torch.int16), "n": value}
    def get_extra_state(self):
        return self.extra
    def set_extra_state(self, extra):
        self.extra = extra
def state_of(value):
    return elastic.State(
        torch.nn.Sequential(Module(value)),
        ordered=collections.OrderedDict(b=torch.tensor(value), a=(value,)),
        counts=collections.Counter("a" * value))
folder = tempfile.mkdtemp()
child = os.fork()
rank = 0 if child else 1
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank,
                        world_size=2)
state = state_of(1 + rank)
if rank == 1:
    state.step = 7
send_state(state, 1, rank == 1, torch.device("cpu"), rank == 1, lambda: None)
def shown(state):
    return repr((state.step, state.model.state_dict(), state._values))
wanted = state_of(2)
wanted.step = 7
assert shown(state) == shown(wanted), (shown(state), shown(wanted))
dist.barrier()
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("sent")
"""

# A world that ends in `commit`, where its check raises.
SCALES = DRIVER + """
def trained(*worlds_end_at):
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    optimizers = [torch.optim.SGD([one], lr=0.1) for one in model.parameters()]
    scaler = torch.amp.GradScaler("cpu", growth_interval=3)
    state = elastic.State(model, optimizers, scaler=scaler)
    state._driver = driver
    state.undo()  # The world ends before anything was scaled.
    ended = set()
    while state.step < 10:
        scaler.scale(model(torch.ones(2, 4)).square().sum()).backward()
        for one in optimizers:
            scaler.unscale_(one)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        driver.over = state.step in worlds_end_at and state.step not in ended
        try:
            state.commit()
        except RuntimeError as error:
            assert str(error) == "over", error
            ended.add(state.step)
            state.undo()
    return [one.tolist() for one in model.parameters()], scaler.state_dict()
assert trained(0, 5) == trained()
print("scaled")
"""

# Another thread opens epoll descriptors while the group is made; and Gloo's number
# is another one's later on.
SPARES = """
import os, select, socket
import torch.distributed as dist
import rollcall
from rollcall.torch import _groups
kept = []
def watching(*watched):
    epoll = select.epoll()
    for one in watched:
        epoll.register(one, select.EPOLLIN)
    kept.append((epoll, watched))
    return epoll
def goes_through(one, other):
    one.send(b"x")
    return other.recv(1) == b"x"
make = dist.init_process_group
theirs = socket.socketpair()
server = socket.create_server(("127.0.0.1", 0))
def slow(*arguments, **options):
    make(*arguments, **options)
    watching(theirs[0])
dist.init_process_group = slow
with rollcall.attach(elastic=True) as rank:
    groups = _groups.InPlace(rank)
    assert len(groups._epolls) == 1, groups._epolls
    groups.free()
    assert goes_through(*theirs)
    (_, listening), = groups._epolls
    closed = watching(theirs[0])
    number = closed.fileno()
    # It is Gloo's no more: closed, of another epoll, of another file.
    groups._epolls = [(str(number), listening)]
    closed.close()
    groups.free()
    again = watching(theirs[0], server)
    assert again.fileno() == number
    groups.free()
    again.close()
    assert os.dup(theirs[0].fileno()) == number
    groups.free()
    os.close(number)
    assert goes_through(*theirs)
    # What it watches itself ends.
    ours = socket.socketpair()
    groups._epolls = [(str(watching(ours[0], server).fileno()),
                       os.fstat(server.fileno()).st_ino)]
    groups.free()
    assert ours[1].recv(1) == b""
    socket.create_connection(server.getsockname()).close()
print("spared")
"""


class WithoutAgent(WithTorch):
    def test_no_sample_is_lost_or_doubled(self):
        tried = self.stage.run([PYTHON, "-c", SAMPLES], ENVIRONMENT)
        self.assertEqual(tried.out(), ["sampled"], tried.text())

    def test_a_checkpoint_holds_the_whole_state(self):
        tried = self.stage.run([PYTHON, "-c", LOADS], ENVIRONMENT)
        self.assertEqual(tried.out(), ["loaded"], tried.text())

    def test_a_state_is_sent_whole(self):
        tried = self.stage.run([PYTHON, "-c", SENDS], ENVIRONMENT)
        self.assertEqual(tried.out(), ["sent"], tried.text())

    def test_an_older_torch_is_named(self):
        tried = self.stage.run([PYTHON, "-c", NEEDS], ENVIRONMENT)
        self.assertEqual(tried.out(), ["said"], tried.text())


class CurrentTorch(ElasticTest):
    def test_a_program_may_step_its_optimizer_itself(self):
        tried = self.stage.run([self.python, "-c", STEPS], self.env)
        self.assertEqual(tried.out(), ["stepped"], tried.text())

    def test_a_world_that_ends_in_a_commit_leaves_the_scaler_usable(self):
        tried = self.stage.run([self.python, "-c", SCALES], self.env)
        self.assertEqual(tried.out(), ["scaled"], tried.text())

    def test_connections_of_others_than_gloo_stay(self):
        tried = self.stage.run([self.python, "-c", SPARES], self.env)
        self.assertEqual(tried.out(), ["spared"], tried.text())


if __name__ == "__main__":
    unittest.main()
