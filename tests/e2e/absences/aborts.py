"""Nothing that came from outside may reach an abort."""
import re

from absences.source import excused, places, without_comments

# Files that read input from outside.
INPUT = re.compile(
    r"^daemon/base/(lines|printable)"
    r"|^daemon/core/(admission/|job/|exchange|network_plan/)"
    r"|^daemon/security/|^daemon/journal/"
    r"|^daemon/server/(membership_service|admin_service|leader/succession"
    r"|front_door/peer_address)"
    r"|^client/(facts|doctor|admin|cli|launch|rank)/"
    r"|^client/agent/(core/agent|hosts/|link/(daemon_stream|named_leader)"
    r"|nccl/nccl\.|nccl/network_settings"
    r"|node_files/(rank_folders|world_files)|rank_service/"
    r"|processes/(error_file|stack_dump))"
    r"|^trainer/data/(dataset|shard_header)"
    r"|^trainer/(options|checkpoint/|collective/|cuda/nccl|"
    r"check/(check_options|thresholds))")
# Checks there of what is not from outside: (file, the line) -> why.
CHECKS_JUSTIFIED = {
    ("daemon/security/digest.cc", "CHECK_GT(got, 0);"):
        "the system's random numbers: without them there is no secret",
    ("daemon/security/digest.cc", "CHECK(HMAC("):
        "fails only without memory, for any key and text",
    ("daemon/security/digest.cc", "CHECK_EQ(size, digest.size());"):
        "SHA-256 has the size that it has",
    ("daemon/security/digest.cc", "CHECK(kdf != nullptr);"):
        "part of every OpenSSL 3",
    ("daemon/security/digest.cc", "CHECK(context != nullptr);"):
        "fails only without memory",
    ("daemon/security/digest.cc", "CHECK_GT(EVP_KDF_derive("):
        "of a secret that Parse has measured, for a size that we chose",
    ("daemon/security/value_sealer.cc", "CHECK(context != nullptr);"):
        "fails only without memory",
    ("daemon/security/value_sealer.cc", "CHECK(done);"):
        "fails only without memory: sizes are bounded before",
    ("trainer/data/dataset.cc", "CHECK_LE(out.size(), tokens_);"):
        "offset and size come from our sampler",
    ("trainer/data/dataset.cc", "CHECK_LE(offset, tokens_ - out.size());"):
        "offset and size come from our sampler",
    ("client/agent/core/agent.cc", "CHECK_NE(hello.incarnation(), 0u);"):
        "drawn by ourselves, never zero",
    ("client/agent/core/agent.cc", "CHECK_GE(now, now_);"):
        "our shell's monotonic clock",
    ("daemon/core/job/job_restore.cc", "CHECK_GE(nodes_min_, 1u);"):
        "settings are checked at admission, a journal's by CheckJournal",
    ("daemon/core/job/job_restore.cc", "CHECK_LE(nodes_min_, nodes_max_);"):
        "settings are checked at admission, a journal's by CheckJournal",
    ("daemon/core/job/job_restore.cc",
     "CHECK_LE(nodes_max_, Limits::nodes_max);"):
        "settings are checked at admission, a journal's by CheckJournal",
    ("daemon/core/job/job_restore.cc", "CHECK(!state.end.has_value());"):
        "CheckJournal, which comes before, refuses a run that has ended",
    ("daemon/core/job/job.cc", "CHECK_GE(now, now_);"):
        "our shell's monotonic clock",
    ("daemon/core/job/job.cc", "CHECK_LE(barred_.size(), sessions_.size());"):
        "an invariant of ours, for any input",
    ("daemon/core/job/job.cc", "CHECK_LE(nodes_.size(), kKnownMax);"):
        "an invariant of ours, for any input",
    ("daemon/core/job/job.cc", "CHECK_LE(deadlines_.size(), nodes_.size());"):
        "an invariant of ours, for any input",
    ("daemon/core/job/job.cc",
     "CHECK_LE(failures_.causes().size(), Limits::causes_max);"):
        "an invariant of ours, for any input",
    ("daemon/core/job/job.cc",
     "CHECK((node.session == 0) || sessions_.contains(node.session));"):
        "an invariant of ours, for any input",
    ("daemon/core/job/job.cc", "CHECK(seats.insert(node.seat).second);"):
        "seats are given by ourselves",
    ("daemon/core/job/job.cc",
     "CHECK_LT(static_cast<uint32_t>(node.seat), nodes_max_);"):
        "seats are given by ourselves",
    ("daemon/core/job/job.cc", "CHECK_EQ(world_.generation(), generation_);"):
        "both were just set by ourselves",
    ("daemon/core/job/job.cc",
     "CHECK_LE(notices_.leaving().size(), nodes_.size());"):
        "only known nodes are put there, and go from both together",
    ("daemon/core/job/job.cc", "CHECK_LE(reach_.size(), nodes_.size());"):
        "its entries are nodes of nodes_, and go when a node is gone",
    ("daemon/core/job/job.cc", "CHECK_LE(checking_.size(), nodes_.size());"):
        "only connected nodes are asked, and one that leaves is removed",
    ("daemon/core/job/job.cc",
     "CHECK_LE(hangs_.size(), world_.world_size());"):
        "by rank of the world, for local ranks that its nodes have",
    ("daemon/core/job/job.cc",
     "CHECK_LE(newcomers_.names(), Limits::newcomer_names_max);"):
        "a further name is counted with the others",
    ("daemon/core/job/job.cc",
     "CHECK_LE(isolation_.silent(), nodes_.size());"):
        "members are put there, and go when it is known what became of them",
    ("daemon/core/job/job.cc",
     "CHECK_LE(claimants_.size(), Limits::nodes_max);"):
        "a claim beyond that is refused",
    ("daemon/core/job/job.cc",
     "CHECK_LE(claims_.size(), Limits::claimed_worlds_max);"):
        "a claim of one more world is refused",
    ("daemon/core/job/job_notice.cc", "CHECK(phase_ == Phase::kRunning);"):
        "all callers check the phase first, which is ours",
    ("daemon/core/network_plan/newcomer_verdict.cc",
     "CHECK_LT(left.size(), nodes.size());"):
        "a newcomer is left in each pass, and each pass removes at least one",
    ("daemon/core/job/job_attend.cc",
     "CHECK(node.deadline == absl::InfiniteFuture());"):
        "a node that attends again is absent or unknown: judged before",
    ("daemon/core/job/job_end.cc", "CHECK(phase_ != Phase::kEnded);"):
        "a job's phase is ours; a message after its end gets a Refusal",
    ("daemon/core/job/job_form.cc", "CHECK(!names.empty());"):
        "called only while a member is unprepared",
    ("daemon/core/job/job_form.cc",
     "CHECK(phase_ == Phase::kForming || phase_ == Phase::kRunning);"):
        "a job's phase is ours",
    ("daemon/core/exchange.cc", "CHECK_LT(node_rank, ranks_.size());"):
        "the rank that we gave the session, never the message's",
}

ABORTS = re.compile(r"(?<!\w)(CHECK(_\w+)?|assert|GPR_ASSERT|LOG\(FATAL)\s*\(|"
                    # Not a message's abort(), nor a method of that name.
                    r"(?<![\w.>:])abort\s*\((?!\)\s*const)|"
                    r"std::terminate\(|std::abort\(")


def aborts_on_input(files):
    """Nothing from network, file, environment or flag reaches an abort."""
    return places({p: excused(p, without_comments(t), CHECKS_JUSTIFIED)
                   for p, t in files.items() if INPUT.search(p)},
                  ABORTS, "what comes from outside gets a Status", clean=str)
