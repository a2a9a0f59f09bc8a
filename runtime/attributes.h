/* Marks on functions. */
#pragma once

/* The function may suspend the calling task. */
#define SUSPENDS

/* The result must be looked at; `(void)` says that it is ignored on purpose. Stands first
 * in a declaration. (gcc's attribute cannot be silenced by (void); clang 14 has no
 * [[nodiscard]] in C17.) */
#ifdef __clang__
#define NODISCARD __attribute__((warn_unused_result))
#else
#define NODISCARD [[nodiscard]]
#endif
