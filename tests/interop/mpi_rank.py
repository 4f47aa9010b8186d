"""An MPI program (mpi4py) that does not use rollcall.

Arguments: the exit code of rank 0, and a file that each rank reads to its end
before it exits.
"""
import sys

from mpi4py import MPI


def main():
    world = MPI.COMM_WORLD
    world.Barrier()
    rank, size = world.Get_rank(), world.Get_size()
    total = world.allreduce(rank + 1)
    # One rank prints for all: mpirun reads each rank's output from a terminal
    # and may read a line and its end separately, with another rank's output in
    # between.
    lines = world.gather(f"mpi {rank} of {size} on {MPI.Get_processor_name()} "
                         f"total {total}")
    if rank == 0:
        print("\n".join(lines), flush=True)
    with open(sys.argv[2], "rb") as f:
        f.read()
    world.Barrier()
    sys.exit(int(sys.argv[1]) if rank == 0 else 0)


if __name__ == "__main__":
    main()
