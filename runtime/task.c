/* Stackful tasks on one loop.
 *
 * A task owns a stack: a mapping of 64 KiB with a guard page below it. Ended tasks go to a
 * last-in-first-out pool, so a new one finds warm pages; a stack loops over the functions
 * it is given and is never built anew. The switch itself is Boost.Context's two C entry
 * points, or ucontext (-DATTACHD_SWITCH=ucontext). Sanitizers and valgrind are told about
 * every stack.
 *
 * Who runs: run_task() switches to a task; the task switches back when it suspends, ends,
 * or wants a function run on the loop's stack (task_on_loop, task_await's start). */
#include "runtime/task.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uv.h>

#ifdef ATTACHD_SWITCH_UCONTEXT
#include <ucontext.h>
#endif

#include "runtime/deadline.h"
#include "runtime/loop.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define WITH_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WITH_TSAN 1
#endif
#endif

#ifdef WITH_ASAN
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif
#ifdef WITH_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define VALGRIND_STACK_REGISTER(start, end) 0
#define VALGRIND_STACK_DEREGISTER(id)       ((void)(id))
#endif

#ifdef WITH_ASAN
enum { STACK_BYTES = 256 * 1024 }; /* red zones make frames larger */
#else
enum { STACK_BYTES = 64 * 1024 };
#endif
enum { BATCH = 256 }; /* tasks run before the loop looks at its descriptors again */

enum task_state { TASK_POOLED, TASK_READY, TASK_RUNNING, TASK_SUSPENDED };

#ifndef ATTACHD_SWITCH_UCONTEXT
typedef void *fcontext;
struct transfer {
    fcontext from;
    void *data;
};
/* Boost.Context's C entry points (libboost_context.a). */
struct transfer jump_fcontext(fcontext to, void *data);
fcontext make_fcontext(void *stack_top, size_t bytes, void (*fn)(struct transfer));
#endif

/* One side of a switch: a task's stack or the loop's. */
struct side {
#ifdef ATTACHD_SWITCH_UCONTEXT
    ucontext_t context;
#else
    fcontext context;
#endif
    const void *stack_bottom;
    size_t stack_bytes;
    void *fake_stack;
    void *tsan_fiber;
};

struct task {
    struct task *next_ready;
    struct task *next; /* in loop->all, or in the pool */
    struct task *previous;
    struct loop *loop;
    struct side own;
    char *mapping;
    size_t mapping_bytes;
    unsigned valgrind_stack;
    uv_timer_t timer; /* for the innermost deadline */

    uint64_t id;
    uint64_t started_at_ms;
    const char *name;
    const char *step;
    void (*run)(void *arg);
    void *arg;
    struct task_context context;
    struct deadline *deadline;
    enum task_state state;
    bool woken;
    bool cancelled;
    bool late;      /* the timer of the innermost deadline has fired */
    bool sure_wait; /* only a wake ends it */

    void (*on_loop)(void *arg); /* to be run by run_task after a switch back */
    void *on_loop_arg;
    bool on_loop_resumes;
};

/* The one thread-local of the program: which task runs, for log lines and waits. */
static _Thread_local struct task *current;

struct task *task_self(void)
{
    return current;
}

struct loop *task_loop(const struct task *task)
{
    return task->loop;
}

uint64_t task_id(const struct task *task)
{
    return task->id;
}

struct task_context *task_context(struct task *task)
{
    return &task->context;
}

const struct task_context *task_context_of(const struct task *task)
{
    return &task->context;
}

const char *task_step(const struct task *task)
{
    return task->step;
}

const char *task_name(const struct task *task)
{
    return task->name;
}

uint64_t task_started_at_ms(const struct task *task)
{
    return task->started_at_ms;
}

bool task_is_cancelled(const struct task *task)
{
    return task->cancelled;
}

struct deadline *task_deadline(const struct task *task)
{
    return task->deadline;
}

size_t task_count(const struct loop *loop)
{
    return loop->live_count;
}

/* ---- the switch ---- */

/* Inlined always: TSan's switch changes the shadow stack at once, so a return from here
 * would pop a frame of the other stack. */
__attribute__((always_inline)) static inline void switch_begins(struct side *from,
                                                                const struct side *to)
{
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack_bottom, to->stack_bytes);
#else
    (void)from;
#endif
#ifdef WITH_TSAN
    __tsan_switch_to_fiber(to->tsan_fiber, 0);
#else
    (void)to;
#endif
}

static void switch_ended(struct side *self, struct side *from)
{
#ifdef WITH_ASAN
    const void *bottom = NULL;
    size_t bytes = 0;
    __sanitizer_finish_switch_fiber(self->fake_stack, &bottom, &bytes);
    from->stack_bottom = bottom;
    from->stack_bytes = bytes;
#else
    (void)self;
    (void)from;
#endif
}

static void switch_stack(struct side *from, struct side *to)
{
    switch_begins(from, to);
#ifdef ATTACHD_SWITCH_UCONTEXT
    (void)swapcontext(&from->context, &to->context);
#else
    to->context = jump_fcontext(to->context, from).from;
#endif
    switch_ended(from, to);
}

static void list_remove(struct loop *loop, struct task *task)
{
    if (task->previous)
        task->previous->next = task->next;
    else
        loop->all.first = task->next;
    if (task->next)
        task->next->previous = task->previous;
    else
        loop->all.last = task->previous;
    task->next = task->previous = NULL;
}

static void list_append(struct loop *loop, struct task *task)
{
    task->next = NULL;
    task->previous = loop->all.last;
    if (loop->all.last)
        loop->all.last->next = task;
    else
        loop->all.first = task;
    loop->all.last = task;
}

/* A task's life on its stack: run, go to the pool, be given the next function. */
static void task_body(struct task *task)
{
    for (;;) {
        task->run(task->arg);
        assert(!task->deadline && "a task ended inside a deadline it entered");
        task->state = TASK_POOLED;
        switch_stack(&task->own, task->loop->home);
    }
}

#ifdef ATTACHD_SWITCH_UCONTEXT
static void task_entry(unsigned high, unsigned low)
{
    struct task *task = (struct task *)(((uintptr_t)high << 32) | (uintptr_t)low);
    switch_ended(&task->own, task->loop->home);
    task_body(task);
}
#else
static void task_entry(struct transfer transfer)
{
    struct task *task = current;
    task->loop->home->context = transfer.from;
    switch_ended(&task->own, task->loop->home);
    task_body(task);
}
#endif

static void prepare_stack(struct task *task, size_t page)
{
    char *stack = task->mapping + page;
    task->own.stack_bottom = stack;
    task->own.stack_bytes = STACK_BYTES;
    task->valgrind_stack = VALGRIND_STACK_REGISTER(stack, stack + STACK_BYTES);
#ifdef WITH_ASAN
    /* Heap that only a suspended task points to is no leak. */
    __lsan_register_root_region(stack, STACK_BYTES);
#endif
#ifdef WITH_TSAN
    task->own.tsan_fiber = __tsan_create_fiber(0);
#endif
#ifdef ATTACHD_SWITCH_UCONTEXT
    (void)getcontext(&task->own.context);
    task->own.context.uc_stack.ss_sp = stack;
    task->own.context.uc_stack.ss_size = STACK_BYTES;
    task->own.context.uc_link = NULL;
    uintptr_t address = (uintptr_t)task;
    makecontext(&task->own.context, (void (*)(void))task_entry, 2,
                (unsigned)(address >> 32), (unsigned)(address & 0xffffffffU));
#else
    task->own.context = make_fcontext(stack + STACK_BYTES, STACK_BYTES, task_entry);
#endif
}

static void on_timer(uv_timer_t *timer)
{
    struct task *task = timer->data;
    task->late = true;
    if (task->state == TASK_SUSPENDED && !task->sure_wait) {
        bool was_woken = task->woken;
        task_wake(task);
        task->woken = was_woken;
    }
}

static struct task *task_new(struct loop *loop)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct task *task = calloc(1, sizeof(*task));
    if (!task)
        return NULL;
    task->mapping_bytes = STACK_BYTES + page;
    task->mapping = mmap(NULL, task->mapping_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (task->mapping == MAP_FAILED || mprotect(task->mapping, page, PROT_NONE) != 0) {
        if (task->mapping != MAP_FAILED)
            (void)munmap(task->mapping, task->mapping_bytes);
        free(task);
        return NULL;
    }
    task->loop = loop;
    (void)uv_timer_init(&loop->uv, &task->timer);
    task->timer.data = task;
    uv_unref((uv_handle_t *)&task->timer);
    prepare_stack(task, page);
    return task;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct task *task = handle->data;
    task->loop->closing_count--;
    VALGRIND_STACK_DEREGISTER(task->valgrind_stack);
#ifdef WITH_ASAN
    __lsan_unregister_root_region(task->own.stack_bottom, STACK_BYTES);
#endif
#ifdef WITH_TSAN
    __tsan_destroy_fiber(task->own.tsan_fiber);
#endif
    (void)munmap(task->mapping, task->mapping_bytes);
    free(task);
}

void task_pool_drain(struct loop *loop)
{
    while (loop->pool) {
        struct task *task = loop->pool;
        loop->pool = task->next;
        loop->closing_count++;
        uv_close((uv_handle_t *)&task->timer, on_timer_closed);
    }
}

/* ---- running ---- */

static void make_ready(struct task *task)
{
    struct loop *loop = task->loop;
    task->state = TASK_READY;
    task->next_ready = NULL;
    if (loop->ready.last)
        loop->ready.last->next_ready = task;
    else
        loop->ready.first = task;
    loop->ready.last = task;
}

static int make_home(struct loop *loop)
{
    if (loop->home)
        return 0;
    loop->home = calloc(1, sizeof(*loop->home));
    if (!loop->home)
        return -ENOMEM;
#ifdef WITH_TSAN
    loop->home->tsan_fiber = __tsan_get_current_fiber();
#endif
    return 0;
}

int task_start(struct loop *loop, const char *name, void (*run)(void *arg), void *arg)
{
    if (make_home(loop) != 0)
        return -ENOMEM;
    struct task *task = loop->pool;
    if (task)
        loop->pool = task->next;
    else
        task = task_new(loop);
    if (!task)
        return -ENOMEM;
    task->id = ++loop->next_task_id;
    task->started_at_ms = loop_now_ms(loop);
    task->name = name;
    task->step = "start";
    task->run = run;
    task->arg = arg;
    task->context = (struct task_context){0};
    task->woken = task->cancelled = task->late = task->sure_wait = false;
    list_append(loop, task);
    loop->live_count++;
    make_ready(task);
    return 0;
}

static void task_ended(struct task *task)
{
    struct loop *loop = task->loop;
    list_remove(loop, task);
    (void)uv_timer_stop(&task->timer);
    loop->live_count--;
    task->next = loop->pool;
    loop->pool = task;
}

/* Switches to the task until it suspends or ends, running what it wants on this stack. */
static void run_task(struct task *task)
{
    for (;;) {
        task->state = TASK_RUNNING;
        current = task;
        switch_stack(task->loop->home, &task->own);
        current = NULL;
        if (task->state == TASK_POOLED) {
            task_ended(task);
            return;
        }
        void (*fn)(void *arg) = task->on_loop;
        bool resumes = task->on_loop_resumes;
        task->on_loop = NULL;
        if (!resumes)
            task->state = TASK_SUSPENDED;
        if (fn)
            fn(task->on_loop_arg);
        if (!resumes)
            return;
    }
}

bool task_run_ready(struct loop *loop)
{
    for (int i = 0; i < BATCH && loop->ready.first; i++) {
        struct task *task = loop->ready.first;
        loop->ready.first = task->next_ready;
        if (!loop->ready.first)
            loop->ready.last = NULL;
        run_task(task);
    }
    return loop->ready.first != NULL;
}

/* ---- waiting ---- */

static bool is_shielded(const struct task *task)
{
    for (const struct deadline *deadline = task->deadline; deadline;
         deadline = deadline->outer)
        if (deadline->shields)
            return true;
    return false;
}

static int interruption(const struct task *task)
{
    if (task->cancelled && !is_shielded(task))
        return -ECANCELED;
    return task->late ? -ETIMEDOUT : 0;
}

#ifdef ATTACHD_TEST_HOOKS
static void (*wait_hook)(const struct task *task, const char *step, bool ended);

void task_set_wait_hook(void (*hook)(const struct task *task, const char *step, bool ended))
{
    wait_hook = hook;
}
#endif

/* For tests, which end the process at a step of their choice. */
static void pass_step(const struct task *task, const char *step, bool ended)
{
#ifdef ATTACHD_TEST_HOOKS
    if (wait_hook)
        wait_hook(task, step, ended);
#else
    (void)task;
    (void)step;
    (void)ended;
#endif
}

static void suspend(struct task *task, const char *step, void (*start)(void *arg),
                    void *arg)
{
    pass_step(task, step, false);
    task->step = step;
    task->woken = false;
    task->on_loop = start;
    task->on_loop_arg = arg;
    task->on_loop_resumes = false;
    switch_stack(&task->own, task->loop->home);
    pass_step(task, step, true);
}

int task_await(const char *step, void (*start)(void *arg), void *arg)
{
    struct task *task = current;
    assert(task && "waiting is for tasks only");
    int interrupted = interruption(task);
    if (interrupted)
        return interrupted;
    suspend(task, step, start, arg);
    return task->woken ? 0 : interruption(task);
}

void task_await_surely(const char *step, void (*start)(void *arg), void *arg)
{
    struct task *task = current;
    assert(task && "waiting is for tasks only");
    task->sure_wait = true;
    suspend(task, step, start, arg);
    task->sure_wait = false;
    assert(task->woken);
}

void task_wake(struct task *task)
{
    task->woken = true;
    if (task->state == TASK_SUSPENDED)
        make_ready(task);
}

void task_cancel(struct task *task)
{
    task->cancelled = true;
    if (task->state == TASK_SUSPENDED && !task->sure_wait && !is_shielded(task))
        make_ready(task);
}

void task_on_loop(void (*fn)(void *arg), void *arg)
{
    struct task *task = current;
    if (!task) {
        fn(arg);
        return;
    }
    task->on_loop = fn;
    task->on_loop_arg = arg;
    task->on_loop_resumes = true;
    switch_stack(&task->own, task->loop->home);
}

static void arm_timer(void *arg)
{
    struct task *task = arg;
    uint64_t at_ms = task->deadline ? task->deadline->at_ms : UINT64_MAX;
    uint64_t now_ms = loop_now_ms(task->loop);
    task->late = at_ms <= now_ms;
    if (at_ms == UINT64_MAX || task->late)
        (void)uv_timer_stop(&task->timer);
    else
        (void)uv_timer_start(&task->timer, on_timer, at_ms - now_ms, 0);
}

void task_set_deadline(struct task *task, struct deadline *deadline)
{
    uint64_t before_ms = task->deadline ? task->deadline->at_ms : UINT64_MAX;
    uint64_t at_ms = deadline ? deadline->at_ms : UINT64_MAX;
    task->deadline = deadline;
    if (at_ms != before_ms || task->late)
        arm_timer(task);
}

static void wake_task(void *arg)
{
    task_wake(arg);
}

int task_sleep(uint64_t ms)
{
    if (ms == 0) /* a deadline that has passed would not suspend at all */
        return task_await("yield", wake_task, current);
    struct deadline deadline;
    deadline_enter(&deadline, ms);
    int result = task_await("sleep", NULL, NULL);
    bool own = deadline_has_passed(&deadline) &&
               !(deadline.outer && deadline_has_passed(deadline.outer));
    deadline_leave(&deadline);
    return result == -ETIMEDOUT && own ? 0 : result;
}

/* ---- the thread pool ---- */

struct work {
    uv_work_t request;
    struct task *task;
    void (*fn)(void *arg);
    void *arg;
};

static void run_work(uv_work_t *request)
{
    struct work *work = request->data;
    work->fn(work->arg);
}

static void on_work_done(uv_work_t *request, int status)
{
    (void)status;
    struct work *work = request->data;
    task_wake(work->task);
}

static void queue_work(void *arg)
{
    struct work *work = arg;
    (void)uv_queue_work(&work->task->loop->uv, &work->request, run_work, on_work_done);
}

int task_work(const char *step, void (*fn)(void *arg), void *arg)
{
    struct work *work = calloc(1, sizeof(*work));
    if (!work)
        return -ENOMEM;
    *work = (struct work){.task = current, .fn = fn, .arg = arg};
    work->request.data = work;
    task_await_surely(step, queue_work, work);
    free(work);
    return 0;
}

void task_each(struct loop *loop, void (*visit)(const struct task *task, void *arg),
               void *arg)
{
    for (struct task *task = loop->all.first; task; task = task->next)
        visit(task, arg);
}
