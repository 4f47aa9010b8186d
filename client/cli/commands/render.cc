// `rollcall render`: prints the run spec of a platform.
#include "client/launch/render/render.h"

#include <cstdio>

#include "client/cli/commands.h"

namespace rollcall {

int RunRenderCommand(const RenderFlags& flags) {
  const auto text =
      Render(flags.platform, {flags.values, flags.hosts, flags.command});
  if (!text.ok()) return Fail(text.status());
  std::fwrite(text->data(), 1, text->size(), stdout);
  return 0;
}

}  // namespace rollcall
