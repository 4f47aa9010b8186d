#define ROLLCALL_LOOPS(name) name##Avx512
#include "trainer/model/cpu/loops_body.h"
