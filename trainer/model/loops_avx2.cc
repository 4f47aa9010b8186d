#define ROLLCALL_LOOPS(name) name##Avx2
#include "trainer/model/loops_body.h"
