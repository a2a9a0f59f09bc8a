/* Lines are broken at blanks, so that the table's help texts may be of any length. */
#include "ctl/help.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { LEFT_COLUMNS = 24, TEXT_COLUMNS = 62 };

static const char exit_statuses[] =
    "Exit status: 0 the answer is ok; 1 the answer is an error; 2 the command line, a\n"
    "setting or a file is wrong; 3 there was no answer in time, or Redis could not be\n"
    "reached or refused; 130 it was interrupted.\n";

/* "  LEFT   TEXT", the text wrapped into the right column. */
static int append_entry(struct buffer *out, const char *left, const char *text)
{
    int failed = buffer_append_format(out, "  %-*s", LEFT_COLUMNS, left);
    if (!failed && strlen(left) >= LEFT_COLUMNS)
        failed = buffer_append_format(out, "\n  %-*s", LEFT_COLUMNS, "");
    size_t column = 0;
    while (!failed && *text) {
        size_t bytes = strcspn(text, " ");
        if (column > 0 && column + 1 + bytes > TEXT_COLUMNS) {
            failed = buffer_append_format(out, "\n  %-*s", LEFT_COLUMNS, "");
            column = 0;
        }
        if (!failed)
            failed = buffer_append_format(out, "%s%.*s", column > 0 ? " " : "", (int)bytes,
                                          text);
        column += bytes + (column > 0);
        text += bytes + (text[bytes] == ' ');
    }
    return failed ? failed : buffer_append_text(out, "\n");
}

static int append_option(struct buffer *out, const struct option_row *row, bool required)
{
    char left[80];
    char text[400];
    char letter[6] = "";
    char source[120] = "";
    if (row->letter)
        (void)snprintf(letter, sizeof(letter), ", -%c", row->letter);
    if (row->variable)
        (void)snprintf(source, sizeof(source), " (%s; default: %s)", row->variable,
                       row->otherwise);
    (void)snprintf(left, sizeof(left), "--%s%s%s%s", row->name, row->argument ? " " : "",
                   row->argument ? row->argument : "", letter);
    (void)snprintf(text, sizeof(text), "%s%s%s", row->help, source,
                   required ? " (required)" : "");
    return append_entry(out, left, text);
}

/* Options that every command takes stand with the program, the others with their commands.
 */
static int append_options(enum command command, struct buffer *out)
{
    size_t count = 0;
    const struct option_row *rows = options_rows(&count);
    int failed = buffer_append_text(out, "\nOptions:\n");
    for (size_t i = 0; i < count && !failed; i++) {
        bool wanted = rows[i].commands & (1U << command);
        if (wanted)
            failed = append_option(out, &rows[i], rows[i].required & (1U << command));
    }
    return failed;
}

static int append_command(const struct command_row *row, struct buffer *out)
{
    const char *operand = row->operand ? row->operand : "";
    const char *before = row->takes_command ? "" : operand;
    const char *behind = row->takes_command ? operand : "";
    int failed =
        buffer_append_format(out, "usage: attachctl %s%s%s [OPTION ...]%s%s\n\n%c%s.\n",
                             row->name, *before ? " " : "", before, *behind ? " " : "",
                             behind, toupper(row->summary[0]), row->summary + 1);
    if (!failed)
        failed = append_options(row->command, out);
    return failed;
}

static int append_commands(struct buffer *out)
{
    char left[80];
    size_t count = 0;
    const struct command_row *rows = options_commands(&count);
    int failed = buffer_append_text(
        out, "usage: attachctl COMMAND [OPTION ...]\n\nThe hand tool beside attachd: asks "
             "a queue's workers and shows their answers.\n\nCommands:\n");
    for (size_t i = 0; i < count && !failed; i++) {
        (void)snprintf(left, sizeof(left), "%s%s%s", rows[i].name,
                       rows[i].operand ? " " : "", rows[i].operand ? rows[i].operand : "");
        failed = append_entry(out, left, rows[i].summary);
    }
    if (!failed)
        failed = append_options(COMMAND_NONE, out);
    if (!failed)
        failed = buffer_append_text(
            out, "\nattachctl help COMMAND lists the options of a command.\n");
    return failed;
}

int help_append(enum command command, struct buffer *out)
{
    size_t count = 0;
    const struct command_row *rows = options_commands(&count);
    const struct command_row *row = NULL;
    for (size_t i = 0; i < count; i++) {
        if (rows[i].command == command)
            row = &rows[i];
    }
    int failed = row ? append_command(row, out) : append_commands(out);
    if (!failed)
        failed = buffer_append_format(out, "\n%s", exit_statuses);
    return failed;
}
