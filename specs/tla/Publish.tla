------------------------------- MODULE Publish -------------------------------
(***************************************************************************)
(* Publishing the result of one attempt: specs/protocol.md and the table   *)
(* of perago_core/attempt/table.py, written a second time, by hand.        *)
(*                                                                         *)
(* WHAT IT IS FOR.  The explorer (simulation/perago_simulation) runs the   *)
(* production table in a simulated world.  It could lose worlds, or take a *)
(* row for another.  This module shares no code with it, and TLC, not we,  *)
(* explores it.  A test compares the two, state by state and step by step, *)
(* on the Publish_* configurations in this folder.  What that cannot show: *)
(* the protocol was written from the text and the table, but the world     *)
(* around it (store, orchestrator, faults) is described nowhere but in the *)
(* simulator and was written after reading it.  A wrong idea of a store    *)
(* would be in both.                                                       *)
(*                                                                         *)
(* HOW TO READ IT.  One action is one effect at the grain of the ports: an *)
(* execution's outstanding call is carried out, its answer is learnt, and  *)
(* the execution waits for what it asks next.  An action that is a row of  *)
(* the table carries the row's id and the command the row asks for:        *)
(* F1_OpenStaging is row F1, which waits for the first attempt fence and   *)
(* then asks to open the staging name.  The other actions are the world's: *)
(* the store begins an update, the orchestrator gives an attempt up, a     *)
(* worker dies, a stranger commits, a lease expires.                       *)
(*                                                                         *)
(* WHAT IS LEFT OUT.  Answers that get lost and the ledger.  Workspace and *)
(* body are local, so rows W1 and B2 are over when an execution starts, or *)
(* are one action where it looks for earlier attempts first; whether the   *)
(* body changed something is chosen then.  There is no clock: no attempt   *)
(* notices by itself that it is late.                                      *)
(*                                                                         *)
(* A COMMIT IS ITS HISTORY.  A branch is a first-parent chain, so a commit *)
(* is written as the sequence of who made what, oldest first:              *)
(*   <<"A", 0>>   the input everything starts from                         *)
(*   <<"C", r>>   what execution r staged                                  *)
(*   <<"M", r>>   the merge of what execution r staged                     *)
(*   <<"F", n>>   the n-th stranger's commit                               *)
(* Its parent is all but the last entry; what is on a branch is a prefix.  *)
(* Executions, tasks, steps and strangers are counted from 1.              *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
    Backing,              \* "soft", "atomic", "conditional" or "locked"
    \* What the store can do.
    RevocableNames,       \* a request that names a deleted branch fails
    Barrier,              \* there is a call after which every update the store had begun starts again
    ConditionalMerge,     \* the expected head is checked in the update that merges
    ConditionalRelocate,  \* and in the one that relocates
    ConditionalClaim,     \* and so is the claim
    \* How much may happen.
    Steps, Attempts,      \* steps of a workflow, attempts of each
    Workflows,            \* workflows on the target, one after the other
    Abreast,              \* or side by side: the next one may start at any moment
    Pinned,               \* whoever starts one first revokes the names of the ended and passes the barrier
    Crashes, Duplicates, Strangers,
    Twins,                \* how often an open task is scheduled once more, under another id
    Adopts,               \* a retry takes over what its task has published, instead of replacing it
    Pauses,               \* an attempt may be given up while its worker lives
    Changes, NoOps,       \* bodies that change something, bodies that do not
    SameTree              \* two executions of one task produce equal content

VARIABLES
    head,       \* the commit the target points at
    names,      \* staging names: pairs of the execution that made it and the commit it points at
    claims,     \* claim records, oldest first
    raised,     \* for each step the execution whose claim the branch record carries, or Nobody
    requests,   \* publications on their way
    tasks,      \* attempts as the orchestrator sees them, in the order they were handed out
    runs,       \* executions, in the order they were started
    lease,      \* who holds the lease of the target, and whether the last one let go of it properly
    foreign,    \* what strangers have committed
    budget      \* what may still go wrong

vars  == <<head, names, claims, raised, requests, tasks, runs, lease, foreign, budget>>
\* All but `runs`: most rows change nothing but the execution itself.
world == <<head, names, claims, raised, requests, tasks, lease, foreign, budget>>

Nobody     == 0
Root       == << <<"A", 0>> >>
NoCommit   == << >>
AllSteps   == 1 .. (Steps * Workflows)   \* counted on through the workflows
Executions == 1 .. (Cardinality(AllSteps) * Attempts * (Twins + 1) + Duplicates)
Bodies     == (IF Changes THEN {TRUE} ELSE {}) \cup (IF NoOps THEN {FALSE} ELSE {})
Strong     == Backing # "soft"
Adopting   == Adopts /\ Strong   \* `soft` replaces, whatever a task says

\* A task that is scheduled twice is told of one workflow of one step only.
ASSUME Twins > 0 => Steps = 1 /\ Workflows = 1

-----------------------------------------------------------------------------
(* Commits *)

Last(s)       == s[Len(s)]
Parent(c)     == SubSeq(c, 1, Len(c) - 1)
OnBranch(c, h) == Len(c) <= Len(h) /\ SubSeq(h, 1, Len(c)) = c

Task(r)   == tasks[runs[r].task]
Input(r)  == Task(r).input
Staged(r) == Append(Input(r), <<"C", r>>)

\* What a commit contains. A merge onto the staged commit's own base has the staged content, elsewhere a blend.
StagedTree(r, on) == [kind |-> "staged", by |-> IF SameTree THEN Nobody ELSE r, on |-> on]
NoTree            == [kind |-> "none", by |-> Nobody, on |-> NoCommit]
Tree(c) ==
    LET kind == Last(c)[1]
        by   == Last(c)[2]
    IN  CASE kind = "A" -> [kind |-> "root", by |-> Nobody, on |-> NoCommit]
          [] kind = "C" -> StagedTree(by, Parent(c))
          [] kind = "M" -> IF Parent(c) = Input(by) THEN StagedTree(by, Parent(c))
                           ELSE [kind |-> "blend", by |-> by, on |-> Parent(c)]
          [] kind = "F" -> [kind |-> "foreign", by |-> by, on |-> Parent(c)]

-----------------------------------------------------------------------------
(* An execution: what it waits for and what it has learnt.                 *)
(*   stage      "none", "open" once its name was made, "staged" once the   *)
(*              staged commit was                                          *)
(*   output     whose body's return value it is going to report            *)
(*   adopting   it has found what an earlier attempt published, or left as *)
(*              it was, and the body did not run                           *)
(*   found      that commit; none where there is nothing but the claim     *)
(*   earlier    what was accepted for another attempt of its task          *)
(*   listed     the claim records as it listed them                        *)
(*   standings  the orchestrator's word on the tasks of the others' claims *)
(*   leased     it was told that it holds the lease                        *)
(*   decision   what the publish fence said, and about which head          *)
(*   published  the commit the store named                                 *)
(*   doubtful   the target may have moved in a way that is not ours        *)
(*   why        the reason it refuses or is silent (protocol.md A-16)      *)
(*   result     what it reports                                            *)
(*   accepted   what it knows of the result's acceptance                   *)

NoDecision == [verdict |-> "none", head |-> NoCommit]
NoResult   == [status |-> "none", ref |-> NoCommit, output |-> Nobody]
Failure    == [status |-> "failed", ref |-> NoCommit, output |-> Nobody]
Completed(ref, output) == [status |-> "completed", ref |-> ref, output |-> output]
Nothing    == <<"nothing">>

Execution(t, fate, phase, changed, output) ==
    [task |-> t, fate |-> fate, phase |-> phase, changed |-> changed, stage |-> "none", output |-> output,
     adopting |-> FALSE, found |-> NoCommit, earlier |-> NoResult, listed |-> << >>,
     standings |-> {}, leased |-> FALSE, decision |-> NoDecision, published |-> NoCommit, doubtful |-> FALSE,
     why |-> Nothing, result |-> NoResult, accepted |-> "unread"]

\* Whoever adopts first looks for what an earlier attempt has left; the others have run their body already.
Openings            == IF Adopting THEN {FALSE} ELSE Bodies
Fresh(r, t, changed) == IF Adopting THEN Execution(t, "running", "EARLIER_CLAIMS", FALSE, Nobody)
                        ELSE Execution(t, "running", "FENCE_1", changed, r)
Over(r, fate)       == Execution(runs[r].task, fate, "DONE", FALSE, Nobody)   \* it has no memory any more

Alive(r)        == r <= Len(runs) /\ runs[r].fate = "running"
\* Whoever is not alive waits for nothing, phase DONE, so this asks one thing less than it seems to.
Waits(r, phase) == r <= Len(runs) /\ runs[r].phase = phase
Current(r)      == Task(r).status = "open"      \* what an attempt fence asks
Changed(r)      == runs[r].changed
Stale(r)        == <<"stale", Task(r).status>>
IsStaged(r)     == runs[r].stage = "staged"

\* How an execution goes on.
WaitFor(r, phase)  == runs' = [runs EXCEPT ![r].phase = phase]
Fail(r, reason)    == runs' = [runs EXCEPT ![r].phase = "REPORT", ![r].why = reason, ![r].result = Failure]
Silent(r, reason)  == runs' = [runs EXCEPT ![r].phase = "CLEAN_UP", ![r].why = reason]
Complete(r, ref)   == runs' = [runs EXCEPT ![r].phase = "REPORT", ![r].result = Completed(ref, runs[r].output)]

-----------------------------------------------------------------------------
(* A-4, A-5: two fences around staging *)

F1_OpenStaging(r) == Waits(r, "FENCE_1") /\ Current(r) /\ Changed(r) /\ WaitFor(r, "STAGING") /\ UNCHANGED world

F3_ReadHead(r) ==
    Waits(r, "FENCE_1") /\ Current(r) /\ ~Changed(r) /\ Backing = "soft" /\ WaitFor(r, "HEAD") /\ UNCHANGED world

\* A no-op that leaves no mark lets a stalled predecessor land after it, so it makes an anchor.
F6_OpenStaging(r) ==
    Waits(r, "FENCE_1") /\ Current(r) /\ ~Changed(r) /\ Strong /\ WaitFor(r, "STAGING") /\ UNCHANGED world

FX1_CleanUp(r) == Waits(r, "FENCE_1") /\ ~Current(r) /\ Strong  /\ Silent(r, Stale(r)) /\ UNCHANGED world
FX4_Report(r)  == Waits(r, "FENCE_1") /\ ~Current(r) /\ ~Strong /\ Fail(r, Stale(r))   /\ UNCHANGED world

Opened(r, phase) ==
    /\ names' = names \cup {<<r, Input(r)>>}
    /\ runs' = [runs EXCEPT ![r].phase = phase, ![r].stage = "open"]
    /\ UNCHANGED <<head, claims, raised, requests, tasks, lease, foreign, budget>>

S1_Upload(r)     == Waits(r, "STAGING") /\ Changed(r)  /\ Opened(r, "UPLOAD")
S2_ReloadTask(r) == Waits(r, "STAGING") /\ ~Changed(r) /\ Opened(r, "FENCE_2")

U1_CommitStaging(r) == Waits(r, "UPLOAD") /\ WaitFor(r, "COMMIT") /\ UNCHANGED world

HasName(r) == \E name \in names : name[1] = r

C1_ReloadTask(r) ==
    /\ Waits(r, "COMMIT") /\ HasName(r)
    /\ names' = {name \in names : name[1] # r} \cup {<<r, Staged(r)>>}
    /\ runs' = [runs EXCEPT ![r].phase = "FENCE_2", ![r].stage = "staged"]
    /\ UNCHANGED <<head, claims, raised, requests, tasks, lease, foreign, budget>>

\* A newer attempt has revoked the name.
CX1_Report(r) == Waits(r, "COMMIT") /\ ~HasName(r) /\ Fail(r, <<"commit refused">>) /\ UNCHANGED world

G1_ReadHead(r)  == Waits(r, "FENCE_2") /\ Current(r)  /\ ~Strong /\ WaitFor(r, "HEAD")    /\ UNCHANGED world
G3_MakeClaim(r) == Waits(r, "FENCE_2") /\ Current(r)  /\ Strong  /\ WaitFor(r, "CLAIM")   /\ UNCHANGED world
GX1_CleanUp(r)  == Waits(r, "FENCE_2") /\ ~Current(r) /\ Strong  /\ Silent(r, Stale(r))   /\ UNCHANGED world
GX4_Report(r)   == Waits(r, "FENCE_2") /\ ~Current(r) /\ ~Strong /\ Fail(r, Stale(r))     /\ UNCHANGED world

-----------------------------------------------------------------------------
(* A-6, A-8: one claim per attempt, and the claims of the others *)

\* What it stands up for: its own work, or the earlier attempt's it is about to adopt.
MyClaim(r) ==
    [run |-> r, result |-> runs[r].output,
     tree |-> IF IsStaged(r) THEN StagedTree(r, Input(r))
              ELSE IF runs[r].found # NoCommit THEN Tree(runs[r].found) ELSE NoTree]

\* Who stands in the way: an execution of the same attempt, or, where the branch record carries the claim, of a newer
\* attempt of the same step.
SameAttempt(r) == {claims[i].run : i \in {i \in DOMAIN claims : runs[claims[i].run].task = runs[r].task}}
Newer(r) ==
    LET holder == raised[Task(r).step]
    IN  IF ConditionalClaim /\ holder # Nobody
        THEN IF Task(holder).number > Task(r).number THEN {holder} ELSE {}
        ELSE {}
InTheWay(r) == IF SameAttempt(r) # {} THEN SameAttempt(r) ELSE Newer(r)

StartAgain(these) == {[request EXCEPT !.begun = FALSE] : request \in these}

\* Where the branch record carries the claim, raising it changes the record: updates that were begun start again.
K1_ListClaims(r) ==
    /\ Waits(r, "CLAIM") /\ InTheWay(r) = {} /\ Backing # "conditional"
    /\ claims' = Append(claims, MyClaim(r))
    /\ raised' = IF ConditionalClaim THEN [raised EXCEPT ![Task(r).step] = r] ELSE raised
    /\ requests' = IF ConditionalClaim THEN StartAgain(requests) ELSE requests
    /\ WaitFor(r, "CLAIMS")
    /\ UNCHANGED <<head, names, tasks, lease, foreign, budget>>

\* `conditional` lists the claims past the barrier: a zombie that claims and publishes before it is then on record.
K4_RevokeOlder(r) ==
    /\ Waits(r, "CLAIM") /\ InTheWay(r) = {} /\ Backing = "conditional"
    /\ claims' = Append(claims, MyClaim(r))
    /\ WaitFor(r, "REVOCATION")
    /\ UNCHANGED <<head, names, raised, requests, tasks, lease, foreign, budget>>

\* Silent: a FAILED from the duplicate would end the winner's attempt, because both share the task id.
K2_CleanUp(r) ==
    /\ Waits(r, "CLAIM")
    /\ \E other \in InTheWay(r) : Silent(r, <<"claim lost", other>>)
    /\ UNCHANGED world

ClaimsOfTask(r)  == SelectSeq(claims, LAMBDA claim : Task(claim.run).step = Task(r).step)
Others(r, these) == {these[i] : i \in {i \in DOMAIN these : these[i].run # r}}

Listed(r, phase) ==
    /\ runs' = [runs EXCEPT ![r].phase = phase, ![r].listed = ClaimsOfTask(r)]
    /\ UNCHANGED world

Alone(r) == Others(r, ClaimsOfTask(r)) = {}

L1_ReadOwners(r)    == Waits(r, "CLAIMS") /\ ~Alone(r) /\ Listed(r, "OWNERS")
LG1_AcquireLease(r) == Waits(r, "CLAIMS") /\ Alone(r) /\ Backing = "locked"      /\ Listed(r, "LEASE")
LG3_ReadHead(r)     == Waits(r, "CLAIMS") /\ Alone(r) /\ Backing # "locked"      /\ Listed(r, "HEAD")

Standing(t) ==
    CASE tasks[t].status = "completed"               -> "accepted"
      [] tasks[t].status = "open"                    -> "live"
      [] tasks[t].status \in {"failed", "timed out"} -> "dead"

\* Of the others' claims in a list the newest, if it is as new as this attempt: that one publishes, not we.
Above(r, these) == {claim \in Others(r, these) : Task(claim.run).number >= Task(r).number}
Outranked(r, these) ==
    IF Above(r, these) = {} THEN runs[r].why
    ELSE LET top == CHOOSE claim \in Above(r, these) :
                        \A other \in Above(r, these) : Task(other.run).number <= Task(claim.run).number
         IN  <<"claim lost", top.run>>

\* What was accepted for a task, if the claims leave no doubt what it was: whoever adopted did not report its own.
AcceptedFor(r, t) ==
    LET seen     == {runs[r].listed[i] : i \in DOMAIN runs[r].listed}
        own      == {claim \in seen : claim.run = tasks[t].winner}
        possible == {claim.result : claim \in {c \in seen : (c.tree = NoTree) = (tasks[t].ref = tasks[t].input)}}
    IN  IF tasks[t].status # "completed" THEN NoResult
        ELSE IF \E claim \in own : possible \subseteq {claim.result}
        THEN Completed(tasks[t].ref, (CHOOSE claim \in own : TRUE).result) ELSE NoResult

About(r)   == {runs[claim.run].task : claim \in Others(r, runs[r].listed)}
Earlier(r) ==
    LET found == {t \in About(r) : t # runs[r].task /\ AcceptedFor(r, t) # NoResult}
    IN  IF ~Adopting \/ found = {} THEN NoResult
        ELSE AcceptedFor(r, CHOOSE t \in found : \A other \in found : t <= other)

Asked(r, phase, result) ==
    /\ runs' = [runs EXCEPT ![r].phase = phase, ![r].standings = {<<t, Standing(t)>> : t \in About(r)},
                            ![r].why = IF Adopting THEN Outranked(r, runs[r].listed) ELSE runs[r].why,
                            ![r].earlier = Earlier(r), ![r].result = result]
    /\ UNCHANGED world

\* Whoever replaces judges the owners when it sees the head; whoever adopts need not come so far.
ForTheHead(r) == Adopting => Earlier(r) = NoResult /\ Above(r, runs[r].listed) = {}

NG1_AcquireLease(r) == Waits(r, "OWNERS") /\ ForTheHead(r) /\ Backing = "locked" /\ Asked(r, "LEASE", NoResult)
NG3_ReadHead(r)     == Waits(r, "OWNERS") /\ ForTheHead(r) /\ Backing # "locked" /\ Asked(r, "HEAD", NoResult)
N2_Report(r)        == Waits(r, "OWNERS") /\ Earlier(r) # NoResult /\ Asked(r, "REPORT", Earlier(r))
\* Silent: the newer one publishes for both.
N3_CleanUp(r) ==
    Waits(r, "OWNERS") /\ ~ForTheHead(r) /\ Earlier(r) = NoResult /\ Asked(r, "CLEAN_UP", NoResult)

-----------------------------------------------------------------------------
(* Adoption: before it works, an attempt looks for what an earlier one of  *)
(* its task has left. What was accepted it reports at once. What was       *)
(* published it claims like a no-op, and reports it once nobody can take   *)
(* it away any more.                                                       *)

\* A commit says which task made it. Where two tasks write the same, parent and tree do not tell whose it is.
SaysAnothers(r) == Strong /\ Last(head)[1] \in {"C", "M"} /\ Task(Last(head)[2]).step # Task(r).step

\* The claims by which this head was published for the execution's own task; a no-op leaves nothing but its claim.
Adoptable(r) ==
    {claim \in Others(r, runs[r].listed) :
        /\ Adopting
        /\ Input(claim.run) = Input(r)
        /\ IF claim.tree = NoTree THEN head = Input(r)
           ELSE Parent(head) = Input(r) /\ Tree(head) = claim.tree /\ ~SaysAnothers(r)}
Newest(these) == CHOOSE claim \in these : \A other \in these : Task(other.run).number <= Task(claim.run).number

EC1_ReadOwners(r)       == Waits(r, "EARLIER_CLAIMS") /\ ~Alone(r) /\ Listed(r, "EARLIER_OWNERS")
EC2_PrepareWorkspace(r) == Waits(r, "EARLIER_CLAIMS") /\ Alone(r)  /\ Listed(r, "BODY")

\* No claim: it is accepted and stays, and a twin that claimed would be silent for ever.
EO1_Report(r)   == Waits(r, "EARLIER_OWNERS") /\ Earlier(r) # NoResult /\ Asked(r, "REPORT", Earlier(r))
EO2_ReadHead(r) == Waits(r, "EARLIER_OWNERS") /\ Earlier(r) = NoResult /\ Asked(r, "EARLIER_HEAD", NoResult)

EH1_ReloadTask(r) ==
    /\ Waits(r, "EARLIER_HEAD") /\ Adoptable(r) # {}
    /\ LET claim == Newest(Adoptable(r))
       IN  runs' = [runs EXCEPT ![r].phase = "FENCE_1", ![r].adopting = TRUE, ![r].output = claim.result,
                                ![r].found = IF claim.tree = NoTree THEN NoCommit ELSE head]
    /\ UNCHANGED world
EH2_PrepareWorkspace(r) == Waits(r, "EARLIER_HEAD") /\ Adoptable(r) = {} /\ WaitFor(r, "BODY") /\ UNCHANGED world

B2_ReloadTask(r) ==
    /\ Waits(r, "BODY")
    /\ \E changed \in Bodies : runs' = [runs EXCEPT ![r].phase = "FENCE_1", ![r].changed = changed, ![r].output = r]
    /\ UNCHANGED world

-----------------------------------------------------------------------------
(* A-6 under `locked`: the lease, the takeover wait, the third fence *)

Leased(r, phase) ==
    /\ lease' = [holder |-> r, clean |-> TRUE]
    /\ runs' = [runs EXCEPT ![r].phase = phase, ![r].leased = TRUE]
    /\ UNCHANGED <<head, names, claims, raised, requests, tasks, foreign, budget>>

T1_ReloadTask(r)    == Waits(r, "LEASE") /\ lease.holder = Nobody /\ lease.clean  /\ Leased(r, "FENCE_3")
T2_AwaitTakeover(r) == Waits(r, "LEASE") /\ lease.holder = Nobody /\ ~lease.clean /\ Leased(r, "TAKEOVER")
TX1_Report(r)       == Waits(r, "LEASE") /\ lease.holder # Nobody /\ Fail(r, <<"lease busy">>) /\ UNCHANGED world

D1_ReloadTask(r) == Waits(r, "TAKEOVER") /\ WaitFor(r, "FENCE_3") /\ UNCHANGED world

J1_RevokeOlder(r) == Waits(r, "FENCE_3") /\ Current(r)  /\ WaitFor(r, "REVOCATION") /\ UNCHANGED world
JX1_CleanUp(r)    == Waits(r, "FENCE_3") /\ ~Current(r) /\ Silent(r, Stale(r))      /\ UNCHANGED world

-----------------------------------------------------------------------------
(* A-6 under `conditional` and `locked`: revoke older names, pass the barrier *)

V1_PassBarrier(r) ==
    /\ Waits(r, "REVOCATION")
    /\ names' = {name \in names : IF Task(name[1]).step = Task(r).step
                                  THEN Task(name[1]).number >= Task(r).number
                                  ELSE Task(name[1]).status = "open"}  \* another task's, unless it is open
    /\ WaitFor(r, "BARRIER")
    /\ UNCHANGED <<head, claims, raised, requests, tasks, lease, foreign, budget>>

Passed(r, phase) ==
    /\ requests' = IF Barrier THEN StartAgain(requests) ELSE requests
    /\ WaitFor(r, phase)
    /\ UNCHANGED <<head, names, claims, raised, tasks, lease, foreign, budget>>

A2_ReadHead(r)   == Waits(r, "BARRIER") /\ Backing # "conditional" /\ Passed(r, "HEAD")
A3_ListClaims(r) == Waits(r, "BARRIER") /\ Backing = "conditional" /\ Passed(r, "CLAIMS")

-----------------------------------------------------------------------------
(* A-7, A-8: the publish fence. `Objection` is the owner rule: Nothing, or *)
(* the reason why the head must not be replaced. Claims are judged in the  *)
(* order in which they were listed; the first that speaks against it does. *)

Objection(r) ==
    LET seen  == runs[r].listed
        mine  == Task(r).number
        Owner(i) == /\ seen[i].run # r
                    /\ Parent(head) = Input(seen[i].run)
                    /\ Tree(head) = seen[i].tree
        Number(i) == Task(seen[i].run).number
        Dead(i)  == <<runs[seen[i].run].task, "dead">> \in runs[r].standings
        bad   == {i \in DOMAIN seen : Owner(i) /\ (Number(i) >= mine \/ ~Dead(i))}
        first == CHOOSE i \in bad : \A j \in bad : i <= j
        \* Whoever may adopt the head counts too, not only who may have made it.
        Word(i) == CHOOSE word \in runs[r].standings : word[1] = runs[seen[i].run].task
        alive   == {i \in DOMAIN seen : seen[i].run # r /\ Word(i)[2] \in {"accepted", "live"}}
        other   == CHOOSE i \in alive : \A j \in alive : i <= j
    IN  IF ~Strong THEN Nothing
        ELSE IF SaysAnothers(r) THEN <<"says another's">>
        ELSE IF \A i \in DOMAIN seen : ~Owner(i) THEN <<"no claim record">>
        ELSE IF bad = {} THEN IF alive = {} THEN Nothing ELSE <<"may have adopted">> \o Word(other)
        ELSE IF Number(first) >= mine THEN <<"may be newer", Number(first)>>
        ELSE Word(first)

OnInput(r) == head = Input(r)
OnChild(r) == Parent(head) = Input(r)
Verdict(r) ==
    IF Adoptable(r) # {} THEN "adopt"
    ELSE IF runs[r].adopting THEN "refuse"
    ELSE IF OnInput(r) THEN IF IsStaged(r) THEN "merge" ELSE "nothing"
    ELSE IF OnChild(r) /\ Objection(r) = Nothing THEN IF IsStaged(r) THEN "replace" ELSE "return"
    ELSE "refuse"
Decision(r) == [verdict |-> Verdict(r), head |-> head]

Decided(r) ==
    /\ runs' = [runs EXCEPT ![r].phase = "PUBLICATION", ![r].decision = Decision(r)]
    /\ UNCHANGED world

H1_Publish(r) == Waits(r, "HEAD") /\ Verdict(r) = "merge"   /\ Decided(r)
H2_Publish(r) == Waits(r, "HEAD") /\ Verdict(r) = "replace" /\ Decided(r)
H3_Publish(r) == Waits(r, "HEAD") /\ Verdict(r) = "return"  /\ Decided(r)

H4_Report(r) ==
    /\ Waits(r, "HEAD") /\ Verdict(r) = "nothing"
    /\ runs' = [runs EXCEPT ![r].phase = "REPORT", ![r].decision = Decision(r),
                            ![r].result = Completed(Input(r), runs[r].output)]
    /\ UNCHANGED world

\* The result on record, never its own.
H7_Report(r) ==
    /\ Waits(r, "HEAD") /\ Verdict(r) = "adopt"
    /\ runs' = [runs EXCEPT ![r].phase = "REPORT", ![r].decision = Decision(r),
                            ![r].result = Completed(head, Newest(Adoptable(r)).result)]
    /\ UNCHANGED world

H5_Report(r) ==
    /\ Waits(r, "HEAD") /\ Verdict(r) = "refuse"
    /\ runs' = [runs EXCEPT ![r].phase = "REPORT", ![r].decision = Decision(r), ![r].result = Failure,
                            ![r].why = IF runs[r].adopting THEN <<"adopted gone">>
                                       ELSE IF OnChild(r) THEN Objection(r) ELSE <<"head elsewhere">>]
    /\ UNCHANGED world

-----------------------------------------------------------------------------
(* ST-3: the store carries a publication out in two steps. It begins: it   *)
(* looks up source and head, checks what it can check and computes the new *)
(* head. It installs that only if the branch record has not changed since; *)
(* otherwise it begins again. A request outlives its sender.               *)

Sent(r) == \E request \in requests : request.run = r

\* The row H1, H2 or H3 decided; now the request leaves. Nothing comes in between for this execution.
Send(r) ==
    /\ Waits(r, "PUBLICATION") /\ ~Sent(r)
    /\ requests' = requests \cup {[run |-> r, verdict |-> runs[r].decision.verdict,
                                   expected |-> runs[r].decision.head, begun |-> FALSE]}
    /\ UNCHANGED <<head, names, claims, raised, tasks, runs, lease, foreign, budget>>

Refusal(request) ==
    LET conditional == IF request.verdict = "merge" THEN ConditionalMerge ELSE ConditionalRelocate
        named       == Strong \/ request.verdict = "merge"
    IN  IF RevocableNames /\ named /\ ~HasName(request.run) THEN "no such name"
        ELSE IF conditional /\ Strong /\ head # request.expected THEN "unexpected head"
        ELSE IF ConditionalClaim /\ Backing = "atomic" /\ raised[Task(request.run).step] # request.run
             THEN "another claim stands"
        ELSE "none"

Begin(r) ==
    \E request \in requests :
        /\ request.run = r /\ ~request.begun /\ Refusal(request) = "none"
        /\ requests' = (requests \ {request}) \cup {[request EXCEPT !.begun = TRUE]}
        /\ UNCHANGED <<head, names, claims, raised, tasks, runs, lease, foreign, budget>>

Refuses(r) ==
    \E request \in requests :
        /\ request.run = r /\ ~request.begun /\ Refusal(request) # "none"
        /\ requests' = requests \ {request}
        /\ LET reason == <<"publish refused", Refusal(request)>>
           IN  IF ~Alive(r) THEN UNCHANGED runs
               ELSE IF Adopting THEN runs' = [runs EXCEPT ![r].phase = "RIVALS", ![r].why = reason]
               ELSE Fail(r, reason)
        /\ UNCHANGED <<head, names, claims, raised, tasks, lease, foreign, budget>>

PX1_Report(r)     == Alive(r) /\ ~Adopting /\ Refuses(r)
PX2_ListClaims(r) == Alive(r) /\ Adopting /\ Refuses(r)
RefuseTheDead(r)  == ~Alive(r) /\ Refuses(r)

\* The refusal may be a newer twin's doing, and then that one speaks for both.
Again(r, phase, result) ==
    /\ runs' = [runs EXCEPT ![r].phase = phase, ![r].listed = ClaimsOfTask(r), ![r].result = result,
                            ![r].why = Outranked(r, ClaimsOfTask(r))]
    /\ UNCHANGED world
PR1_CleanUp(r) == Waits(r, "RIVALS") /\ Above(r, ClaimsOfTask(r)) # {} /\ Again(r, "CLEAN_UP", NoResult)
PR2_Report(r)  == Waits(r, "RIVALS") /\ Above(r, ClaimsOfTask(r)) = {} /\ Again(r, "REPORT", Failure)

NewHead(request) ==
    CASE request.verdict = "merge"   -> Append(head, <<"M", request.run>>)
      [] request.verdict = "replace" -> Staged(request.run)
      [] request.verdict = "return"  -> Input(request.run)

\* Whoever moves the branch changes its record: whatever else was begun starts again.
Installs(request) ==
    /\ request.begun
    /\ head' = NewHead(request)
    /\ requests' = StartAgain(requests \ {request})
    /\ UNCHANGED <<names, claims, raised, tasks, lease, foreign, budget>>

P1_Report(r) ==
    \E request \in requests :
        /\ request.run = r /\ Alive(r) /\ ~Strong /\ request.verdict # "return" /\ Installs(request)
        /\ runs' = [runs EXCEPT ![r].phase = "REPORT", ![r].published = NewHead(request),
                                ![r].result = Completed(NewHead(request), runs[r].output)]

P2_ReadCommit(r) ==
    \E request \in requests :
        /\ request.run = r /\ Alive(r) /\ Strong /\ request.verdict # "return" /\ Installs(request)
        /\ runs' = [runs EXCEPT ![r].phase = "READ_BACK", ![r].published = NewHead(request)]

P3_Report(r) ==
    \E request \in requests :
        /\ request.run = r /\ Alive(r) /\ request.verdict = "return" /\ Installs(request)
        /\ runs' = [runs EXCEPT ![r].phase = "REPORT", ![r].published = NewHead(request),
                                ![r].result = Completed(Input(r), runs[r].output)]

InstallForTheDead(r) ==
    \E request \in requests : request.run = r /\ ~Alive(r) /\ Installs(request) /\ UNCHANGED runs

-----------------------------------------------------------------------------
(* A-11, A-13, A-14: read back, report, read the acceptance back, clean up *)

\* A merge must stand on the head that was decided on, with the staged content. A replacement is the staged commit.
AsPlanned(r) ==
    LET c == runs[r].published
    IN  IF runs[r].decision.verdict = "merge"
        THEN Parent(c) = runs[r].decision.head /\ Tree(c) = StagedTree(r, Input(r))
        ELSE c = Staged(r)

Y1_Report(r) == Waits(r, "READ_BACK") /\ AsPlanned(r) /\ Complete(r, runs[r].published) /\ UNCHANGED world
Y2_Report(r) ==
    /\ Waits(r, "READ_BACK") /\ ~AsPlanned(r)
    /\ runs' = [runs EXCEPT ![r].phase = "REPORT", ![r].result = Failure, ![r].why = <<"published elsewhere">>,
                            ![r].doubtful = TRUE]
    /\ UNCHANGED world

\* The orchestrator takes the first result of a task it has not ended, and ignores every other.
Reported(r, phase) ==
    LET result == runs[r].result
        t      == runs[r].task
    IN  /\ tasks' = IF tasks[t].status # "open" THEN tasks
                    ELSE IF result.status = "completed"
                    THEN [tasks EXCEPT ![t].status = "completed", ![t].winner = r, ![t].ref = result.ref]
                    ELSE [tasks EXCEPT ![t].status = "failed"]
        /\ WaitFor(r, phase)
        /\ UNCHANGED <<head, names, claims, raised, requests, lease, foreign, budget>>

Completes(r) == runs[r].result.status = "completed"

Z1_CleanUp(r)    == Waits(r, "REPORT") /\ Completes(r) /\ ~Strong /\ Reported(r, "CLEAN_UP")
Z2_ReloadTask(r) == Waits(r, "REPORT") /\ Completes(r) /\ Strong  /\ Reported(r, "ACCEPTANCE")
Z4_CleanUp(r)    == Waits(r, "REPORT") /\ ~Completes(r) /\ Reported(r, "CLEAN_UP")

Accepted(r) == Task(r).status = "completed" /\ Task(r).winner = r
Told(r, word) == runs' = [runs EXCEPT ![r].phase = "CLEAN_UP", ![r].accepted = word]

ZA1_CleanUp(r) == Waits(r, "ACCEPTANCE") /\ Accepted(r)  /\ Told(r, "accepted")     /\ UNCHANGED world
ZA3_CleanUp(r) == Waits(r, "ACCEPTANCE") /\ ~Accepted(r) /\ Told(r, "not accepted") /\ UNCHANGED world

X1_Done(r) ==
    /\ Waits(r, "CLEAN_UP")
    /\ names' = IF runs[r].stage = "none" THEN names ELSE {name \in names : name[1] # r}
    /\ lease' = IF runs[r].leased /\ ~runs[r].doubtful /\ lease.holder = r
                THEN [holder |-> Nobody, clean |-> TRUE] ELSE lease
    /\ runs' = [runs EXCEPT ![r] = Over(r, "ended")]
    /\ UNCHANGED <<head, claims, raised, requests, tasks, foreign, budget>>

-----------------------------------------------------------------------------
(* The orchestrator *)

NewTask(step, number, line, input) ==
    [step |-> step, number |-> number, line |-> line, input |-> input, status |-> "open", winner |-> Nobody,
     ref |-> NoCommit]

Workflow(step) == (step - 1) \div Steps + 1
FirstOf(w)     == (w - 1) * Steps + 1
Started        == {Workflow(tasks[t].step) : t \in DOMAIN tasks}
Latest         == CHOOSE w \in Started : \A other \in Started : other <= w
\* Who is gone on with: in sequence the last task, or the last of each line of a task that was scheduled twice; side by
\* side the last task of each workflow.
LastOf(these)  == CHOOSE t \in these : \A other \in these : other <= t
Line(n)        == {t \in DOMAIN tasks : tasks[t].line = n}
Front          == IF Abreast THEN {LastOf({t \in DOMAIN tasks : Workflow(tasks[t].step) = w}) : w \in Started}
                  ELSE IF Twins > 0 THEN {LastOf(Line(tasks[t].line)) : t \in DOMAIN tasks}
                  ELSE {Len(tasks)}

\* The next attempt of a task is newer than every other one of its step.
Another(task) ==
    LET numbers == {tasks[t].number : t \in {t \in DOMAIN tasks : tasks[t].step = task.step}}
    IN  NewTask(task.step, 1 + CHOOSE n \in numbers : \A other \in numbers : other <= n, task.line, task.input)
Tried(task) == Cardinality({t \in Line(task.line) : tasks[t].step = task.step})

\* What a workflow hands out once its newest attempt has ended: the next step, a retry, or nothing.
After(task) ==
    CASE task.status = "completed" ->
            IF task.step % Steps # 0 THEN {NewTask(task.step + 1, 1, 0, task.ref)} ELSE {}
      [] task.status \in {"failed", "timed out"} ->
            IF Tried(task) < Attempts THEN {Another(task)} ELSE {}
      [] task.status = "open" -> {}

GoingOn == UNION {After(tasks[t]) : t \in Front}

\* The next workflow starts from where the head is.
Starting ==
    IF Latest < Workflows /\ (~Abreast => Last(tasks).status # "open" /\ GoingOn = {})
    THEN {NewTask(FirstOf(Latest + 1), 1, 0, head)} ELSE {}
Following == GoingOn \cup Starting

Delivered(task, changed) ==
    /\ tasks' = Append(tasks, task)
    /\ runs' = Append(runs, Fresh(Len(runs) + 1, Len(tasks) + 1, changed))
    /\ UNCHANGED <<head, claims, raised, lease, foreign>>

HandOut(changed) ==
    \/ \E task \in GoingOn : Delivered(task, changed) /\ UNCHANGED <<names, requests, budget>>
    \/ \E task \in Starting :
        /\ Delivered(task, changed)
        /\ names' = IF Pinned /\ RevocableNames
                    THEN {name \in names : Task(name[1]).status = "open"} ELSE names
        \* An atomic store checks the name in the step that moves the branch.
        /\ requests' = IF Pinned /\ (Barrier \/ ConditionalClaim) THEN StartAgain(requests) ELSE requests
        /\ UNCHANGED budget

\* Both are current, and the result of either counts.
ScheduleTwice(changed) ==
    /\ Last(tasks).status = "open" /\ budget.twins > 0
    /\ budget' = [budget EXCEPT !.twins = @ - 1]
    /\ Delivered([Another(Last(tasks)) EXCEPT !.line = @ + 1], changed)
    /\ UNCHANGED <<names, requests>>

DeliverAgain(changed) ==
    \E t \in Front :
        /\ tasks[t].status = "open" /\ budget.duplicates > 0
        /\ budget' = [budget EXCEPT !.duplicates = @ - 1]
        /\ runs' = Append(runs, Fresh(Len(runs) + 1, t, changed))
        /\ UNCHANGED <<head, names, claims, raised, requests, tasks, lease, foreign>>

GiveUp ==
    \E t \in Front :
        /\ tasks[t].status = "open"
        /\ ~Pauses => \A r \in DOMAIN runs : runs[r].task = t => ~Alive(r)
        /\ tasks' = [tasks EXCEPT ![t].status = "timed out"]
        /\ UNCHANGED <<head, names, claims, raised, requests, runs, lease, foreign, budget>>

-----------------------------------------------------------------------------
(* What goes wrong by itself *)

Crash(r) ==
    /\ Alive(r) /\ budget.crashes > 0
    /\ budget' = [budget EXCEPT !.crashes = @ - 1]
    /\ runs' = [runs EXCEPT ![r] = Over(r, "dead")]
    /\ UNCHANGED <<head, names, claims, raised, requests, tasks, lease, foreign>>

StrangerCommits ==
    /\ budget.strangers > 0
    /\ budget' = [budget EXCEPT !.strangers = @ - 1]
    /\ head' = Append(head, <<"F", Len(foreign) + 1>>)
    /\ foreign' = Append(foreign, head')
    /\ requests' = StartAgain(requests)
    /\ UNCHANGED <<names, claims, raised, tasks, runs, lease>>

LeaseExpires ==
    /\ lease.holder # Nobody
    /\ ~Pauses => ~Alive(lease.holder)
    /\ lease' = [holder |-> Nobody, clean |-> FALSE]
    /\ UNCHANGED <<head, names, claims, raised, requests, tasks, runs, foreign, budget>>

-----------------------------------------------------------------------------
Init ==
    /\ head = Root
    /\ names = {} /\ claims = << >> /\ requests = {} /\ foreign = << >>
    /\ raised = [step \in AllSteps |-> Nobody]
    /\ tasks = <<NewTask(1, 1, 0, Root)>>
    /\ \E changed \in Openings : runs = <<Fresh(1, 1, changed)>>
    /\ lease = [holder |-> Nobody, clean |-> TRUE]
    /\ budget = [crashes |-> Crashes, duplicates |-> Duplicates, strangers |-> Strangers, twins |-> Twins]

Row(r) ==
    \/ EC1_ReadOwners(r) \/ EC2_PrepareWorkspace(r) \/ EO1_Report(r) \/ EO2_ReadHead(r)
    \/ EH1_ReloadTask(r) \/ EH2_PrepareWorkspace(r) \/ B2_ReloadTask(r)
    \/ F1_OpenStaging(r) \/ F3_ReadHead(r) \/ F6_OpenStaging(r) \/ FX1_CleanUp(r) \/ FX4_Report(r)
    \/ S1_Upload(r) \/ S2_ReloadTask(r) \/ U1_CommitStaging(r) \/ C1_ReloadTask(r) \/ CX1_Report(r)
    \/ G1_ReadHead(r) \/ G3_MakeClaim(r) \/ GX1_CleanUp(r) \/ GX4_Report(r)
    \/ K1_ListClaims(r) \/ K2_CleanUp(r) \/ K4_RevokeOlder(r)
    \/ L1_ReadOwners(r) \/ LG1_AcquireLease(r) \/ LG3_ReadHead(r)
    \/ NG1_AcquireLease(r) \/ NG3_ReadHead(r) \/ N2_Report(r) \/ N3_CleanUp(r)
    \/ T1_ReloadTask(r) \/ T2_AwaitTakeover(r) \/ TX1_Report(r) \/ D1_ReloadTask(r)
    \/ J1_RevokeOlder(r) \/ JX1_CleanUp(r) \/ V1_PassBarrier(r) \/ A2_ReadHead(r) \/ A3_ListClaims(r)
    \/ H1_Publish(r) \/ H2_Publish(r) \/ H3_Publish(r) \/ H4_Report(r) \/ H5_Report(r) \/ H7_Report(r)
    \/ P1_Report(r) \/ P2_ReadCommit(r) \/ P3_Report(r) \/ PX1_Report(r) \/ PX2_ListClaims(r)
    \/ PR1_CleanUp(r) \/ PR2_Report(r)
    \/ Y1_Report(r) \/ Y2_Report(r)
    \/ Z1_CleanUp(r) \/ Z2_ReloadTask(r) \/ Z4_CleanUp(r) \/ ZA1_CleanUp(r) \/ ZA3_CleanUp(r) \/ X1_Done(r)

Next ==
    \/ \E r \in Executions : Row(r) \/ Send(r) \/ Begin(r) \/ RefuseTheDead(r) \/ InstallForTheDead(r) \/ Crash(r)
    \/ \E changed \in Openings : HandOut(changed) \/ DeliverAgain(changed) \/ ScheduleTwice(changed)
    \/ GiveUp \/ StrangerCommits \/ LeaseExpires

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold: the clauses of perago_simulation/properties/safety.py   *)

Done == SelectSeq(tasks, LAMBDA task : task.status = "completed")   \* accepted results, oldest first

\* Nobody works, nothing is on its way, nothing more is handed out.
AtRest ==
    /\ requests = {} /\ \A r \in DOMAIN runs : ~Alive(r)
    /\ \A t \in Front : tasks[t].status # "open"
    /\ Following = {}

\* The tasks of the workflow that started last, and its accepted results.
OfLatest     == SelectSeq(tasks, LAMBDA task : Workflow(task.step) >= Workflow(Last(tasks).step))
DoneOfLatest == SelectSeq(OfLatest, LAMBDA task : task.status = "completed")

\* Lengths of the commits above what was accepted that are not a stranger's; the whole branch if that is not on it.
\* A workflow may have started from what an earlier one abandoned: that is then part of its input.
AboveAccepted ==
    LET base  == IF DoneOfLatest = << >> THEN OfLatest[1].input ELSE Last(DoneOfLatest).ref
        below == IF OnBranch(base, head) THEN Len(base) ELSE 0
    IN  {i \in 1 .. Len(head) : i > below /\ head[i][1] # "F"}

\* Every accepted result stays on the branch.
S01 == \A i \in DOMAIN Done : OnBranch(Done[i].ref, head)

\* At most one abandoned publication above what was accepted. Beside another workflow the branch is not its own.
S02 == AtRest /\ ~Abreast => Cardinality(AboveAccepted) <= 1

\* A finished workflow ends with its own result.
S02b == AtRest /\ ~Abreast /\ Len(DoneOfLatest) >= Steps => AboveAccepted = {}

\* No unaccepted commit inside accepted history.
S03 ==
    \A i \in DOMAIN Done :
        LET source == Done[i].input
            ref    == Done[i].ref
        IN  OnBranch(source, ref) =>
                \A n \in (Len(source) + 1) .. (Len(ref) - 1) :
                    \/ ref[n][1] = "F"
                    \/ \E j \in DOMAIN Done : Done[j].ref = SubSeq(ref, 1, n)

\* An accepted publication stands directly on its input.
S04 == \A i \in DOMAIN Done : Done[i].ref # Done[i].input => Parent(Done[i].ref) = Done[i].input

\* All that is accepted for one task is one result.
S41 == \A i, j \in DOMAIN Done : Done[i].step = Done[j].step => Done[i].ref = Done[j].ref

\* A stranger's commit stays on the branch.
S15 == \A i \in DOMAIN foreign : OnBranch(foreign[i], head)
=============================================================================
