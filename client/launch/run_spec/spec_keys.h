// The keys of a run spec that are flags of `launch` without the dashes.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_RUN_SPEC_SPEC_KEYS_H_
#define ROLLCALL_CLIENT_LAUNCH_RUN_SPEC_SPEC_KEYS_H_

namespace rollcall {

// What the value of a key may be.
enum class SpecForm {
  kValue,     // A text or number; the flag's own check decides.
  kPath,      // A path.
  kInput,     // A path, or - for stdin.
  kSwitch,    // true or false.
  kPathList,  // A list of paths: the flag is repeated for each.
  kNameList,  // A list of names: one flag, with commas.
  kMap,       // Names and values: the flag is repeated for each.
};

struct SpecKey {
  const char* name;  // The flag without its dashes.
  SpecForm form;
};

inline constexpr SpecKey kSpecKeys[] = {
    {"job", SpecForm::kValue},
    {"nodes", SpecForm::kValue},
    {"nproc-per-node", SpecForm::kValue},
    {"name", SpecForm::kValue},
    {"no-worker", SpecForm::kSwitch},
    {"once", SpecForm::kSwitch},
    {"max-restarts", SpecForm::kValue},
    {"grow", SpecForm::kValue},
    {"preflight", SpecForm::kValue},
    {"node-check", SpecForm::kSwitch},
    {"env", SpecForm::kMap},
    {"join-timeout", SpecForm::kValue},
    {"last-call", SpecForm::kValue},
    {"hang-timeout", SpecForm::kValue},
    {"start-timeout", SpecForm::kValue},
    {"setup", SpecForm::kValue},
    {"setup-timeout", SpecForm::kValue},
    {"setup-retries", SpecForm::kValue},
    {"notice-time", SpecForm::kValue},
    {"ping-interval", SpecForm::kValue},
    {"linger", SpecForm::kValue},
    {"preempt-signal", SpecForm::kValue},
    {"requeue-exit-code", SpecForm::kValue},
    {"rank-user", SpecForm::kValue},
    {"log-dir", SpecForm::kPath},
    {"folder", SpecForm::kPathList},
    {"same", SpecForm::kPathList},
    {"shared", SpecForm::kPathList},
    {"hosts-file", SpecForm::kPath},
    {"no-hosts", SpecForm::kSwitch},
    {"hosts-names", SpecForm::kNameList},
    {"nccl-env", SpecForm::kValue},
    {"nccl-lib", SpecForm::kPath},
    {"listen", SpecForm::kValue},
    {"http", SpecForm::kValue},
    {"http-insecure", SpecForm::kSwitch},
    {"state", SpecForm::kPath},
    {"secret-file", SpecForm::kInput},
    {"tls-ca", SpecForm::kPath},
    {"tls-cert", SpecForm::kPath},
    {"tls-key", SpecForm::kPath},
    {"tls-bind-names", SpecForm::kSwitch},
    {"insecure", SpecForm::kSwitch},
    {"token-ttl", SpecForm::kValue},
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RUN_SPEC_SPEC_KEYS_H_
