#define ROLLCALL_LOOPS(name) name##Plain
#include "trainer/model/cpu/loops_body.h"
