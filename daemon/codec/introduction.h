// The introduction that an agent sends before a long Hello. Pure; any thread.
#ifndef ROLLCALL_DAEMON_CODEC_INTRODUCTION_H_
#define ROLLCALL_DAEMON_CODEC_INTRODUCTION_H_

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// See AgentMessage.introduction: the fields of the Hello that authenticate it.
v1::AgentMessage IntroductionOf(const v1::Hello& hello);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CODEC_INTRODUCTION_H_
