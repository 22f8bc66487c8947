"""Defects that tests must notice: a text of a file, and what replaces it. The first test should notice it."""

from dataclasses import dataclass


@dataclass
class Mutant:
    name: str
    path: str
    edits: list
    tests: list


def mutant(name, path, old, new, *tests, also=()):
    """`also` has further texts of the file and what replaces them, where one check makes another one redundant."""
    return Mutant(name, path, [(old, new), *also], list(tests) or ["simulation"])


MUTANTS = [
    # The log.
    mutant(
        "acknowledge before the sync",
        "raft/src/log/writer.rs",
        "let synced = self.sync().await;",
        "let synced = Ok(());",
    ),
    mutant(
        "apply before the own sync",
        "raft/src/state_machine.rs",
        "log.synced_to(last.log_id.index()).await?;",
        "let _ = (log, last);",
    ),
    mutant(
        "purge what is not durable",
        "storage/src/apply.rs",
        "engine.state.flush()?;\n        Ok(position)",
        "Ok(position)",
    ),
    mutant(
        "keep a truncated tail",
        "raft/src/log/store.rs",
        "let (write, written) = (LogWrite::TruncateFrom(first), Some(written));",
        "let (write, written) = (LogWrite::TruncateFrom(first.max(1 << 40)), Some(written));",
    ),
    mutant(
        "lower no mark before a truncation",
        "raft/src/log/writer.rs",
        "if let MarkUpdate::Lower(last) = write.mark {",
        "if let MarkUpdate::Lower(last) = write.mark && std::hint::black_box(false) {",
        "raft:conformance",
    ),
    mutant(
        "accept a log below its mark",
        "raft/src/log/store.rs",
        "if vote(found) < vote(mark) || found.last < mark.last {",
        "if std::hint::black_box(false) && (vote(found) < vote(mark) || found.last < mark.last) {",
        "it:corruption::",
    ),
    # The leader.
    mutant(
        "open a term without a barrier",
        "raft/src/leader/executor.rs",
        "let ready = self.shared.raft.ensure_linearizable(ReadPolicy::ReadIndex).await;",
        "let ready: Result<(), RaftError<TypeConfig, std::convert::Infallible>> = Ok(());",
    ),
    mutant(
        "confirm without a quorum",
        "raft/src/leader/executor.rs",
        "match self.shared.raft.ensure_linearizable(ReadPolicy::ReadIndex).await {\n            Ok(_) if",
        "match Ok::<(), ()>(()) {\n            Ok(_) if",
    ),
    mutant(
        "answer reads without leadership",
        "raft/src/shared.rs",
        "let read = self.raft.get_read_linearizer(ReadPolicy::ReadIndex).await.ok()?;\n        Some(read.read_log_id().index())",
        "Some(*self.applied.borrow())",
    ),
    mutant(
        "repeat a command of unknown outcome",
        "raft/src/forward.rs",
        "        Ok(_) | Err(RpcError::Lost(_)) => Err(SubmitError::Unknown),\n    }\n}\n\n/// Requests the leader's read index.",
        "        Ok(_) | Err(RpcError::Lost(_)) => Err(SubmitError::NoLeader),\n    }\n}\n\n/// Requests the leader's read index.",
    ),
    mutant(
        "an unknown outcome is none",
        "raft/src/leader/executor.rs",
        "Ok(Err(_)) | Err(_) => Err(SubmitError::Unknown),\n        }\n    }\n\n    /// Confirms",
        "Ok(Err(_)) | Err(_) => Err(SubmitError::NoLeader),\n        }\n    }\n\n    /// Confirms",
    ),
    mutant(
        "apply a stale batch",
        "storage/src/apply.rs",
        "if batch.after == position.batch {",
        "if batch.after.term <= position.batch.term {",
        "storage:golden",
    ),
    # Elections.
    mutant(
        "an install blocks votes",
        "raft/src/network/install.rs",
        "if incoming.has_memory() {",
        "if incoming.has_memory() && std::hint::black_box(false) {",
    ),
    mutant(
        "a leader with a hanging disk stays",
        "raft/src/membership/unfit.rs",
        "} else if sync > SYNC_MAX {",
        "} else if sync > SYNC_MAX * 1e6 {",
    ),
    mutant(
        "a node with a cluster of its own joins",
        "raft/src/membership/operations.rs",
        "if !is_pristine && from.cluster.is_none() && recorded != Some(from.incarnation) {",
        "if std::hint::black_box(false) && !is_pristine && from.cluster.is_none() && recorded != Some(from.incarnation) {",
    ),
    mutant(
        "an empty node by the metrics alone",
        "raft/src/server.rs",
        "Identified(!is_initialized && !has_log)",
        "Identified((!is_initialized || std::hint::black_box(true)) && !has_log)",
    ),
    mutant(
        "timers of fast disks",
        "deploy/hearth.toml",
        "heartbeat_ms = 400\n"
        "# Range of the random election timeout, in milliseconds. The maximum is also the lease of the\n"
        "# leader. The minimum must be at least three heartbeats.\n"
        "election_min_ms = 1200\n"
        "election_max_ms = 1800",
        "heartbeat_ms = 50\nelection_min_ms = 150\nelection_max_ms = 300",
    ),
    mutant(
        "an empty disk keeps its vote",
        "raft/src/network/identity.rs",
        "if incarnation.is_none_or(|incarnation| incarnation == self.incarnation) {",
        "if incarnation.is_none_or(|_| true) {",
        also=[("if *member == Member::new(from.node, from.incarnation) => Ok(()),", "if !member.removed => Ok(()),")],
    ),
    mutant(
        "two bootstraps",
        "raft/src/membership/bootstrap.rs",
        "if !identify(&shared.peers, *node, address, deadline).await?.is_pristine {",
        "if !identify(&shared.peers, *node, address, deadline).await?.is_pristine && std::hint::black_box(false) {",
        "it:membership:: joining::",
    ),
    mutant(
        "members are not durable",
        "raft/src/state_machine.rs",
        "keep_members(writer, before.as_deref())?;",
        "let _ = (&before, keep_members);",
        "it:membership::",
    ),
    mutant(
        "raise the feature level for some",
        "raft/src/membership/feature_level.rs",
        "releases?.into_iter().min()",
        "releases?.into_iter().max()",
    ),
    mutant(
        "apply a feature level that is too high",
        "storage/src/apply.rs",
        "check_readable(&changes, self.options.release)?;",
        "let _ = check_readable(&changes, self.options.release);",
        "storage:release::",
    ),
    # Clocks and freshness.
    mutant(
        "stamps go back",
        "raft/src/leader/clock.rs",
        "let stamp = next.max(Timestamp(self.last.0.saturating_add(1)));",
        "let stamp = next;",
        "raft:clock",
        "simulation",
    ),
    mutant(
        "follow the clock of the leader",
        "raft/src/leader/clock.rs",
        "at: own.clamp(median.minus(MEDIAN_DISTANCE_MAX), median.plus(MEDIAN_DISTANCE_MAX)),",
        "at: own,",
        "raft:clock",
        "simulation",
    ),
    mutant(
        "staleness without the delay of the message",
        "raft/src/server.rs",
        "let age = Duration::from_micros(quorum_age_micros).saturating_add(delay);",
        "let age = Duration::from_micros(quorum_age_micros).saturating_add(delay.min(Duration::ZERO));",
    ),
    mutant(
        "staleness without the age at the leader",
        "raft/src/server.rs",
        "let age = Duration::from_micros(quorum_age_micros).saturating_add(delay);",
        "let age = delay.min(Duration::from_micros(quorum_age_micros));",
    ),
    mutant(
        "a delay by the messages of one direction",
        "raft/src/server.rs",
        "&& let Some(delay) = local.contact.delay_max(timing.arrival, least)",
        "&& let delay = local.contact.delay_max(timing.arrival, least).map_or(timing.arrival.excess, |_| timing.arrival.excess)",
    ),
    mutant(
        "an age without the suspension",
        "raft/src/system_clock.rs",
        "self.detector.lock().suspension.map_or(elapsed, |last| last.added_to(elapsed, now))",
        "self.detector.lock().suspension.map_or(elapsed, |last| last.added_to(elapsed, now).min(elapsed))",
    ),
    mutant(
        "staleness by the monotonic clock",
        "raft/src/system_clock.rs",
        "let reading = self.machine.clocks();",
        "let reading = self.machine.clocks();\n        let reading = ClockReading { boottime: reading.monotonic, ..reading };",
    ),
    mutant(
        "fresh before the commit is applied",
        "raft/src/contact.rs",
        "if *commit > applied {",
        "if *commit > applied + 1_000 {",
    ),
    mutant(
        "a read waits for one entry less",
        "raft/src/handle.rs",
        "applied.wait_for(|applied| *applied >= index)",
        "applied.wait_for(|applied| *applied + 1 >= index)",
    ),
    # Recovery.
    mutant(
        "recover drops the end of a log",
        "raft/src/recover.rs",
        "        if entries.is_empty() {\n            return replay.end(to);\n        }",
        "        if entries.len() < 3 {\n            return replay.end(to);\n        }",
    ),
    # Backups.
    mutant(
        "the newest backup by wall clock",
        "node/src/backup/store.rs",
        "let position = manifest.as_ref().ok().map(|it| (it.cluster.clone(), it.index));",
        "let position = manifest.as_ref().ok().map(|it| (it.cluster.clone(), it.created_at));",
        "node:backup::simulation",
    ),
    mutant(
        "prune races create",
        "node/src/backup/store.rs",
        'for folder in ["pending", "backups"] {',
        'for folder in ["backups"] {',
        "node:backup::simulation",
    ),
    mutant(
        "a backup uses any object that is there",
        "node/src/backup/store.rs",
        "Ok(files.map(|file| (file.sha256, file.object)).collect())",
        '''drop(files);
        let names = self.list("files").await?.into_iter().filter_map(|it| it.location.filename().map(str::to_owned));
        Ok(names.map(|name| (name[..64].to_owned(), name)).collect())''',
        "node:backup::simulation",
    ),
    # Receipts.
    mutant(
        "forget a receipt",
        "storage/src/decide/idempotency.rs",
        "context.push(Change::ReceiptPut(context.tenant, owner, request.key, receipt));",
        "let _ = (owner, receipt);",
    ),
    mutant(
        "a receipt for another body",
        "storage/src/decide/idempotency.rs",
        "reject_if(receipt.body_hash != request.body_hash, Rejection::KeyReused)?;",
        "",
        "storage:golden model",
    ),
    # Triggers.
    mutant(
        "fire twice",
        "storage/src/decide/fire.rs",
        "for _ in 0..event.times {",
        "for _ in 0..event.times * 2 {",
    ),
    mutant(
        "a cooldown holds nothing back",
        "storage/src/decide/fire.rs",
        "let is_bounded = trigger.max_fires.is_some() || trigger.cooldown_seconds > 0;",
        "let is_bounded = trigger.max_fires.is_some();",
        "storage:golden model",
    ),
    mutant(
        "an edge tells of its closed end",
        "storage/src/decide/fire.rs",
        "owner_has_access(draft, event.tenant, owner, &other.memory.namespace)",
        "Ok(owner_has_access(draft, event.tenant, owner, &other.memory.namespace)? || std::hint::black_box(true))",
        "storage:",
        "it:hostile::rights access::",
    ),
    # Access and limits.
    mutant(
        "any key redirects any webhook",
        "storage/src/decide/context.rs",
        "Ok(trigger.owner == self.actor || self.access_of(key)?.is_unrestricted())",
        "Ok(trigger.owner == self.actor || self.access_of(key)?.is_unrestricted() || std::hint::black_box(true))",
        "it:hostile::rights",
    ),
    mutant(
        "any key rewrites what another one locked",
        "storage/src/decide/context.rs",
        "Ok(!is_guarded || self.is_admin_key(key)?)",
        "Ok(!is_guarded || self.is_admin_key(key)? || std::hint::black_box(true))",
        "it:locks::",
    ),
    mutant(
        "a limit has room for one more",
        "storage/src/decide/context.rs",
        "self.draft.number(self.tenant, counted) + added <= max",
        "self.draft.number(self.tenant, counted) + added <= max + 1",
        "storage:tenants",
        "it:tenants::",
    ),
    # Search.
    mutant(
        "filter after the limit",
        "storage/src/search/filter.rs",
        "let denied_namespaces = data.namespaces.denied(&self.access);",
        "let denied_namespaces = Vec::new();",
        "storage:closed",
    ),
    mutant(
        "edges to closed memories take places",
        "storage/src/search/execute.rs",
        "let is_allowed = |memory: Memory| access.allows(&memory.namespace);",
        "let is_allowed = |memory: Memory| access.allows(&memory.namespace) || std::hint::black_box(true);",
        "storage:closed",
    ),
    mutant(
        "find what waits in quarantine",
        "storage/src/search/filter.rs",
        "            self.quarantine.quarantined(),\n        );",
        "            None,\n        );",
        "storage:closed",
    ),
    mutant(
        "a bound forgets the boosts",
        "storage/src/search/scoring.rs",
        "(by_words * self.boost).max(by_words)",
        "by_words",
        "storage:planner",
    ),
    mutant(
        "a bound of words is too low",
        "storage/src/search/scoring.rs",
        "false => (least / without_words - 1.0) / plan.weights.keyword_weight,",
        "false => (least / without_words - 0.9) / plan.weights.keyword_weight,",
        "storage:planner",
    ),
]
