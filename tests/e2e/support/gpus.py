"""The number of GPUs, and ranks that share one GPU."""
import ctypes

APART = 'export NCCL_HOSTID="$ROLLCALL_NODE" NCCL_SOCKET_IFNAME==lo; ' \
        'exec "$@"'


def gpus():
    """Returns the number of GPUs that the driver reports."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return 0
    return count.value


def apart(command):
    """Returns a command whose ranks seem to be on different machines."""
    return ["sh", "-c", APART, "sh", *command]
