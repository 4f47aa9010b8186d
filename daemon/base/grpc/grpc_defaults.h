// gRPC defaults: the arguments that every gRPC channel and server of rollcall
// begins with. Callers add their own arguments to the returned ones.
//
// Message compression is off. gRPC 1.51 inflates a compressed message before it
// looks at any size limit, so 130 KB from an unauthenticated client become
// 128 MiB here. With these arguments a message whose header names an encoding
// is refused (UNIMPLEMENTED), and gRPC has no filter that could inflate it.
// What rollcall compresses itself (worlds, etcd values) is bounded where it is
// inflated: world_codec, run_record.
//
// Any thread.
#ifndef ROLLCALL_DAEMON_BASE_GRPC_GRPC_DEFAULTS_H_
#define ROLLCALL_DAEMON_BASE_GRPC_GRPC_DEFAULTS_H_

#include <grpc/compression.h>
#include <grpc/impl/codegen/compression_types.h>
#include <grpc/impl/codegen/grpc_types.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

namespace rollcall {

// One bit for each algorithm; only that of no compression is set.
inline constexpr int kCompressionAlgorithms = 1 << GRPC_COMPRESS_NONE;

inline grpc::ChannelArguments DefaultChannelArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetCompressionAlgorithm(GRPC_COMPRESS_NONE);
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
                   kCompressionAlgorithms);
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  // No HTTP proxy: the daemon, etcd and the ranks' agent are reached directly.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

inline void SetDefaults(grpc::ServerBuilder& builder) {
  builder.SetDefaultCompressionAlgorithm(GRPC_COMPRESS_NONE);
  for (int algorithm = GRPC_COMPRESS_NONE + 1;
       algorithm < GRPC_COMPRESS_ALGORITHMS_COUNT; ++algorithm) {
    builder.SetCompressionAlgorithmSupportStatus(
        static_cast<grpc_compression_algorithm>(algorithm), false);
  }
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
}

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_GRPC_GRPC_DEFAULTS_H_
