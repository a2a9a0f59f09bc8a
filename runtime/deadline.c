/* A stack of deadlines in the frames of the running task; the task keeps the innermost. */
#include "runtime/deadline.h"

#include <assert.h>
#include <stddef.h>

#include "runtime/loop.h"
#include "runtime/task.h"

static uint64_t now_ms(void)
{
    return loop_now_ms(task_loop(task_self()));
}

static void enter(struct deadline *deadline, uint64_t timeout_ms, bool shields)
{
    struct task *task = task_self();
    assert(task && "deadlines belong to tasks");
    uint64_t now = now_ms();
    *deadline = (struct deadline){.outer = task_deadline(task), .shields = shields};
    deadline->at_ms = timeout_ms >= UINT64_MAX - now ? UINT64_MAX : now + timeout_ms;
    if (deadline->outer && !shields && deadline->outer->at_ms < deadline->at_ms)
        deadline->at_ms = deadline->outer->at_ms;
    task_set_deadline(task, deadline);
}

void deadline_enter(struct deadline *deadline, uint64_t timeout_ms)
{
    enter(deadline, timeout_ms, false);
}

void deadline_enter_shielded(struct deadline *deadline, uint64_t timeout_ms)
{
    enter(deadline, timeout_ms, true);
}

void deadline_leave(struct deadline *deadline)
{
    struct task *task = task_self();
    assert(task_deadline(task) == deadline && "deadlines are left innermost first");
    task_set_deadline(task, deadline->outer);
}

bool deadline_has_passed(const struct deadline *deadline)
{
    return deadline->at_ms <= now_ms();
}

uint64_t deadline_left_ms(void)
{
    const struct deadline *deadline = task_deadline(task_self());
    if (!deadline || deadline->at_ms == UINT64_MAX)
        return UINT64_MAX;
    uint64_t now = now_ms();
    return deadline->at_ms > now ? deadline->at_ms - now : 0;
}
