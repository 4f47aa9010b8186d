"""Checks that no input from outside may reach an abort."""
import re

from absences.source import excused, places, without_comments

# Files that read input from outside.
INPUT = re.compile(
    r"^daemon/base/text/(lines|printable)"
    r"|^daemon/core/(admission/|adoption/|job/|membership/|network_plan/"
    r"|exchange)"
    r"|^daemon/security/|^daemon/journal/"
    r"|^daemon/server/(membership_service|admin_service|calls/"
    r"|leader/leader_session|connections/peer_address)"
    r"|^client/(facts|doctor|admin|cli|launch|rank)/"
    r"|^client/agent/(core/agent|hosts/|link/(daemon_stream|named_leader)"
    r"|nccl/nccl\.|nccl/network_settings"
    r"|node_files/(rank_folders|world_files)|rank_service/"
    r"|processes/(output/error_file|stack_dump))"
    r"|^trainer/data/(dataset|shard_header)"
    r"|^trainer/(rank/options|checkpoint/|collective/|cuda/nccl|"
    r"check/(check_options|thresholds))")
# Checks there on values that are not from outside: (file, line) -> reason.
CHECKS_JUSTIFIED = {
    ("daemon/security/crypto/digest.cc", "CHECK_GT(got, 0);"):
        "the system's random numbers: without them there is no secret",
    ("daemon/security/crypto/digest.cc", "CHECK(HMAC("):
        "fails only without memory, for any key and text",
    ("daemon/security/crypto/digest.cc", "CHECK_EQ(size, digest.size());"):
        "SHA-256 has the size that it has",
    ("daemon/security/crypto/digest.cc", "CHECK(kdf != nullptr);"):
        "part of every OpenSSL 3",
    ("daemon/security/crypto/digest.cc", "CHECK(context != nullptr);"):
        "fails only without memory",
    ("daemon/security/crypto/digest.cc", "CHECK_GT(EVP_KDF_derive("):
        "of a secret that Parse has measured, for a size that we chose",
    ("daemon/security/secrets/value_sealer.cc", "CHECK(context != nullptr);"):
        "fails only without memory",
    ("daemon/security/secrets/value_sealer.cc", "CHECK(done);"):
        "fails only without memory: sizes are bounded before",
    ("daemon/core/membership/membership.cc",
     "CHECK(At(name).session != 0 && !At(name).member());"):
        "Job begins a set-up for no other node, and Disconnect ends it",
    ("trainer/data/dataset.cc", "CHECK_LE(count, tokens_);"):
        "offset and size come from our sampler",
    ("trainer/data/dataset.cc", "CHECK_LE(offset, tokens_ - count);"):
        "offset and size come from our sampler",
    ("client/agent/core/agent/agent.cc", "CHECK_NE(hello.incarnation(), 0u);"):
        "drawn by ourselves, never zero",
    ("client/agent/core/agent/agent.cc", "CHECK_GE(now, state_.now);"):
        "our shell's monotonic clock",
    ("daemon/core/job/state/job_state.cc",
     "CHECK_GE(settings.nodes_min(), 1u);"):
        "settings are checked at admission, a journal's by CheckJournal",
    ("daemon/core/job/state/job_state.cc",
     "CHECK_LE(settings.nodes_min(), settings.nodes_max());"):
        "settings are checked at admission, a journal's by CheckJournal",
    ("daemon/core/job/state/job_state.cc",
     "CHECK_LE(settings.nodes_max(), Limits::nodes_max);"):
        "settings are checked at admission, a journal's by CheckJournal",
    ("daemon/core/job/handlers/restoring.cc",
     "CHECK(!state.end.has_value());"):
        "CheckJournal, which comes before, refuses a run that has ended",
    ("daemon/core/job/job.cc", "CHECK_GE(now, state_.now);"):
        "our shell's monotonic clock",
    ("daemon/core/membership/membership.cc",
     "CHECK_LE(excluded_.size(), streams_.size());"):
        "an invariant of ours, for any input",
    ("daemon/core/membership/membership.cc",
     "CHECK_LE(setting_up_.size(), streams_.size());"):
        "an invariant of ours, for any input",
    ("daemon/core/membership/membership.cc",
     "CHECK_LE(nodes_.size(), kKnownMax);"):
        "an invariant of ours, for any input",
    ("daemon/core/membership/membership.cc",
     "CHECK_LE(deadlines_.size(), nodes_.size());"):
        "an invariant of ours, for any input",
    ("daemon/core/job/job.cc",
     "CHECK_LE(job.failures.causes().size(), Limits::causes_max);"):
        "an invariant of ours, for any input",
    ("daemon/core/membership/membership.cc",
     "CHECK((node.session == 0) || streams_.contains(node.session));"):
        "an invariant of ours, for any input",
    ("daemon/core/membership/membership.cc",
     "CHECK(held.insert(node.seat).second);"):
        "seats are given by ourselves",
    ("daemon/core/membership/membership.cc",
     "CHECK_LT(static_cast<uint32_t>(node.seat), seats);"):
        "seats are given by ourselves",
    ("daemon/core/job/job.cc",
     "CHECK_EQ(job.world().generation(), job.generation());"):
        "both were just set by ourselves",
    ("daemon/core/job/job.cc",
     "CHECK_LE(job.notices.leaving().size(), known);"):
        "only known nodes are put there, and go from both together",
    ("daemon/core/job/job.cc",
     "CHECK_LE(job.vetting.probes().held(), known);"):
        "its entries are known nodes, and go when a node is gone",
    ("daemon/core/job/job.cc", "CHECK_LE(job.vetting.nodes(), known);"):
        "its entries are known nodes, and go with them",
    ("daemon/core/job/job.cc",
     "CHECK_LE(job.quarantine.checking(), known);"):
        "only connected nodes are asked, and one that leaves is removed",
    ("daemon/core/job/job.cc",
     "CHECK_LE(job.hangs.size(), job.world().world_size());"):
        "by rank of the world, for local ranks that its nodes have",
    ("daemon/core/job/job.cc",
     "CHECK_LE(job.newcomers.names(), Limits::newcomer_names_max);"):
        "a further name is counted with the others",
    ("daemon/core/job/job.cc",
     "CHECK_LE(job.isolation.silent(), known);"):
        "members are put there, and go when it is known what became of them",
    ("daemon/core/adoption/adoption.cc",
     "CHECK_LE(claimants_.size(), Limits::nodes_max);"):
        "a claim beyond that is refused",
    ("daemon/core/adoption/adoption.cc",
     "CHECK_LE(claims_.size(), Limits::claimed_worlds_max);"):
        "a claim of one more world is refused",
    ("daemon/core/job/acts/notice_rounds.cc", "CHECK(job.IsRunning());"):
        "all callers check the phase first, which is ours",
    ("daemon/core/network_plan/newcomer_verdict.cc",
     "CHECK_LT(left.size(), nodes.size());"):
        "a newcomer is left in each pass, and each pass removes at least one",
    ("daemon/core/job/handlers/attending.cc",
     "CHECK(node.lease.deadline == absl::InfiniteFuture());"):
        "a node that attends again is absent or unknown: judged before",
    ("daemon/core/job/acts/job_end.cc", "CHECK(!job.HasEnded());"):
        "a job's phase is ours; a message after its end gets a Refusal",
    ("daemon/core/job/handlers/forming.cc", "CHECK(!names.empty());"):
        "called only while a member is unprepared",
    ("daemon/core/job/handlers/forming.cc",
     "CHECK(act.kind == Vetting::Act::Kind::kSay);"):
        "Vetting's acts are ours; all others are about a node",
    ("daemon/core/job/acts/generation_end.cc", "CHECK(job.HasWorld());"):
        "a job's phase is ours",
    ("daemon/core/exchange.cc", "CHECK_LT(node_rank, ranks_.size());"):
        "the rank that we gave the session, never the message's",
}

ABORTS = re.compile(r"(?<!\w)(CHECK(_\w+)?|assert|GPR_ASSERT|LOG\(FATAL)\s*\(|"
                    # Leaves out a message's abort() and methods of that name.
                    r"(?<![\w.>:])abort\s*\((?!\)\s*const)|"
                    r"std::terminate\(|std::abort\(")


def aborts_on_input(files):
    """No input from network, file, environment or flag reaches an abort."""
    return places({p: excused(p, without_comments(t), CHECKS_JUSTIFIED)
                   for p, t in files.items() if INPUT.search(p)},
                  ABORTS, "what comes from outside gets a Status", clean=str)
