// config.json, in the form of transformers' GPT2Config: what transformers needs
// to load the model. Nothing in rollcall reads it.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_GPT2_CONFIG_H_
#define ROLLCALL_TRAINER_CHECKPOINT_GPT2_CONFIG_H_

#include <string>

#include "trainer/model/parameters.h"

namespace rollcall {

std::string FormatGpt2Config(const GptConfig& config);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_GPT2_CONFIG_H_
