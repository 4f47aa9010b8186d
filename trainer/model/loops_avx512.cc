#define ROLLCALL_LOOPS(name) name##Avx512
#include "trainer/model/loops_body.h"
