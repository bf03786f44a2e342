/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

/*
 * Singly linked lists of structs
 *
 * A list is a pointer to its first item, or NULL if it is empty.  @next is the
 * member of an item that points to the following one.
 */

/* Insert @item as the first item. */
#define list_add(list, item, next) ((item)->next = (list), (list) = (item))

/* Remove @item, which may be NULL or missing from the list. */
#define list_remove(list, item, next)                                          \
	do {                                                                   \
		__typeof__(&(list)) at_ = &(list);                             \
		while (*at_ && *at_ != (item))                                 \
			at_ = &(*at_)->next;                                   \
		if (*at_)                                                      \
			*at_ = (*at_)->next;                                   \
	} while (0)

/* Set @item to the first item for which @condition is true, or to NULL. */
#define list_find(item, list, next, condition)                                 \
	do {                                                                   \
		(item) = (list);                                               \
		while ((item) && !(condition))                                 \
			(item) = (item)->next;                                 \
	} while (0)

#endif
