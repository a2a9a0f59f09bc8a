/* Deadlines of the running task. They nest: the tightest one counts. When it passes, every
 * wait of the task returns -ETIMEDOUT until the deadline is left.
 *
 *     struct deadline deadline;
 *     deadline_enter(&deadline, timeout_ms);
 *     int result = something_that_waits();
 *     deadline_leave(&deadline);
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct deadline {
    struct deadline *outer;
    uint64_t at_ms; /* the loop's clock; UINT64_MAX: never */
    bool shields;   /* hides the task's cancel and the outer deadlines */
};

/* Gives the running task a deadline `timeout_ms` from now; an outer one that is tighter
 * stays in force. The struct is the caller's and must outlive the matching deadline_leave.
 */
void deadline_enter(struct deadline *deadline, uint64_t timeout_ms);

/* As deadline_enter, but hides cancel and outer deadlines meanwhile: for clean-up that has
 * to wait, within a bound of its own. */
void deadline_enter_shielded(struct deadline *deadline, uint64_t timeout_ms);

/* Leaves the innermost deadline, which must be this one. */
void deadline_leave(struct deadline *deadline);

/* Whether this one has passed, itself or by an outer one. */
bool deadline_has_passed(const struct deadline *deadline);

/* Milliseconds that the running task may still wait; UINT64_MAX without a deadline. */
uint64_t deadline_left_ms(void);
