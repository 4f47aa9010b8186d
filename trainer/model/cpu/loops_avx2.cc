#define ROLLCALL_LOOPS(name) name##Avx2
#include "trainer/model/cpu/loops_body.h"
