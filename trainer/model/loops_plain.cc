#define ROLLCALL_LOOPS(name) name##Plain
#include "trainer/model/loops_body.h"
