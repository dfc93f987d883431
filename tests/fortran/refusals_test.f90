! Calls of Quire's Fortran module after a rank was late, inside a function that Quire calls, in a
! forked child, and with what is closed.
!
!   refusals_test REPOSITORY   (a directory that is not there yet, and is left behind)
module closing_update
  use, intrinsic :: iso_c_binding
  use quire
  implicit none
  type(quire_context) :: context
contains
  ! Tries to close the context that it is called in.
  recursive integer(c_int) function close_it(key, present, argument, updated, answer, user) bind(c)
    type(quire_bytes), value :: key, argument
    type(c_ptr), value :: present, updated, answer, user
    integer :: status
    close_it = QUIRE_BUSY
    if (key%size + argument%size == 0 .or. c_associated(present) .or. c_associated(user)) return
    if (.not. (c_associated(updated) .and. c_associated(answer))) return
    call quire_context_close(context, status)
    if (status == QUIRE_INVALID_ARGUMENT) close_it = QUIRE_NOT_FOUND
  end function close_it
end module closing_update

program refusals_test
  use mpi
  use quire
  use closing_update
  implicit none
  interface
    integer(c_int) function fork() bind(c)
      import :: c_int
    end function fork
    integer(c_int) function waitpid(child, outcome, flags) bind(c)
      import :: c_int
      integer(c_int), value :: child, flags
      integer(c_int), intent(out) :: outcome
    end function waitpid
    integer(c_int) function alarm(seconds) bind(c)
      import :: c_int
      integer(c_int), value :: seconds
    end function alarm
    integer(c_int) function sleep(seconds) bind(c)
      import :: c_int
      integer(c_int), value :: seconds
    end function sleep
    subroutine end_child(code) bind(c, name='_exit')
      import :: c_int
      integer(c_int), value :: code
    end subroutine end_child
  end interface
  integer, parameter :: tries = 10
  integer :: rank, ranks, provided, status, tried = 0
  logical :: in_child = .false., parted = .false.
  character(len=200) :: repository
  type(quire_options) :: options
  type(quire_db) :: db, other
  type(quire_batch) :: batch
  type(quire_iter) :: iter
  type(quire_event) :: event
  type(quire_reader) :: reader
  type(quire_dataset_writer) :: writer
  type(quire_dataset_reader) :: set
  type(quire_dataset_values) :: values
  type(quire_dataset_scan) :: scan
  type(quire_stream_writer) :: stream
  type(quire_stream_reader) :: versions
  integer(c_int64_t), parameter :: field_bytes = 4096
  character(kind=c_char), target :: copy(field_bytes), attached(field_bytes)

  call check_without_mpi()
  call mpi_init_thread(MPI_THREAD_MULTIPLE, provided, status)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, status)
  call mpi_comm_size(MPI_COMM_WORLD, ranks, status)
  call get_command_argument(1, repository)
  call quire_options_create(options, status)
  call quire_options_set(options, 'timeout_ms', '700', status)
  call expect_ok('options_set')
  if (ranks > 1) call check_late_rank()
  call open_all()
  call check_inside()
  call check_forked_child()
  call check_closed()
  call quire_options_destroy(options)
  call mpi_finalize(status)

contains

  ! MPI itself ends a program that calls it too early; Quire returns.
  subroutine check_without_mpi()
    call quire_context_open_mpi(MPI_COMM_WORLD, 'refused', context, status)
    call expect(status == QUIRE_INVALID_ARGUMENT, 'context_open_mpi before mpi_init_thread')
    call expect(index(quire_error_message(), 'call MPI_Init_thread first') > 0, 'what to call')
  end subroutine check_without_mpi

  ! With a context of its own, whose ranks may part within a call.
  subroutine check_late_rank()
    call quire_context_open_mpi(MPI_COMM_WORLD, repository, context, status, options)
    call expect_ok('context_open_mpi of ranks in a hurry')
    do while (again('db_open'))
      call quire_db_open(context, 'late', db, status)
    end do
    call let_a_barrier_time_out()
    call check_late_pairs()
    call check_late_modes()
    call let_a_barrier_time_out()
    call check_late_context()
    call check_late_dataset()
    call let_a_barrier_time_out()
    call check_late_persistence()
    call quire_context_close(context, status)
    call expect_ok('context_close after a late rank')
  end subroutine check_late_rank

  subroutine let_a_barrier_time_out()
    integer(c_int) :: slept
    if (parted) return
    call wait_for_all()
    if (rank == ranks - 1) slept = sleep(2_c_int)
    call quire_db_barrier(db, QUIRE_MEMTABLE, status)
    if (is_parted()) return
    call expect(status == QUIRE_TIMED_OUT, 'a barrier with a late rank')
    call expect(index(quire_error_message(), 'timeout_ms') > 0, 'what to raise')
  end subroutine let_a_barrier_time_out

  ! Calls of pairs: each does what it does without the time-out.
  subroutine check_late_pairs()
    character(len=:), allocatable :: val
    integer :: owner
    integer(c_int64_t) :: counted
    do while (again('db_put'))
      call quire_db_put(db, 'key', 'value', status)
    end do
    do while (again('db_fence'))
      call quire_db_fence(db, status)
    end do
    call wait_for_all()
    do while (again('db_get'))
      call quire_db_get(db, 'key', val, status)
    end do
    if (.not. parted) call expect(val == 'value', 'get after a time-out')
    call wait_for_all()
    do while (again('db_register_update'))
      call quire_db_register_update(db, 1, close_it, status)
    end do
    call wait_for_all()
    do while (again('db_update'))
      call quire_db_update(db, 'update', 1, '', status)
    end do
    do while (again('db_update_and_answer'))
      call quire_db_update_and_answer(db, 'update', 1, '', val, status)
    end do
    do while (again('db_owner'))
      call quire_db_owner(db, 'key', owner, status)
    end do
    do while (again('db_statistic'))
      call quire_db_statistic(db, 'puts.local', counted, status)
    end do
    do while (again('batch_create'))
      call quire_batch_create(batch, status)
    end do
    do while (again('batch_delete'))
      call quire_batch_delete(batch, 'key', status)
    end do
    do while (again('db_write'))
      call quire_db_write(db, batch, status)
    end do
    call quire_batch_destroy(batch)
    call wait_for_all()
    if (parted) return
    call quire_db_get(db, 'key', val, status)
    call expect(status == QUIRE_NOT_FOUND .or. status == QUIRE_TIMED_OUT, 'what was deleted')
  end subroutine check_late_pairs

  ! Calls that are collective, or of this rank's files.
  subroutine check_late_modes()
    call wait_for_all()
    do while (again('db_set_consistency'))
      call quire_db_set_consistency(db, QUIRE_SEQUENTIAL, status)
    end do
    do while (again('db_protect'))
      call quire_db_protect(db, QUIRE_PROTECT_READ_ONLY, status)
    end do
    if (parted) return
    call quire_db_delete(db, 'key', status)
    call expect(status == QUIRE_READ_ONLY, 'delete in a phase of reading')
    do while (again('db_protect'))
      call quire_db_protect(db, QUIRE_READ_WRITE, status)
    end do
    do while (again('db_delete'))
      call quire_db_delete(db, 'key', status)
    end do
    do while (again('db_flush'))
      call quire_db_flush(db, status)
    end do
    do while (again('db_compact'))
      call quire_db_compact(db, status)
    end do
    do while (again('iter_create'))
      call quire_iter_create(db, iter, status)
    end do
    do while (again('iter_seek_to_first'))
      call quire_iter_seek_to_first(iter, status)
    end do
    call quire_iter_destroy(iter)
  end subroutine check_late_modes

  subroutine check_late_context()
    character(len=:), allocatable :: text
    integer :: before, after
    before = modulo(rank - 1, ranks)
    after = modulo(rank + 1, ranks)
    do while (again('context_barrier'))
      call quire_context_barrier(context, status)
    end do
    do while (again('context_notify'))
      call quire_context_notify(context, 1, [after], status)
    end do
    do while (again('context_wait_signal'))
      call quire_context_wait_signal(context, 1, [before], status)
    end do
    do while (again('context_progress'))
      call quire_context_progress(context, status)
    end do
    do while (again('context_describe'))
      call quire_context_describe(context, text, status)
    end do
    do while (again('context_agree'))
      call quire_context_agree(context, QUIRE_OK, '', status)
    end do
    do while (again('db_open of another'))
      call quire_db_open(context, 'second', other, status)
    end do
    do while (again('db_close of another'))
      call quire_db_close(other, status)
      call accept_repeated(QUIRE_INVALID_ARGUMENT)
    end do
    do while (again('context_list_databases'))
      call quire_context_list_databases(context, text, status)
    end do
    if (parted) return
    call expect(index(text, 'second') > 0, 'the list of databases')
    do while (again('context_destroy_database'))
      call quire_context_destroy_database(context, 'second', status)
      call accept_repeated(QUIRE_NOT_FOUND)
    end do
  end subroutine check_late_context

  ! An epoch whose end timed out is complete or absent: the writer is opened again.
  subroutine check_late_dataset()
    do while (again('a dataset'))
      call write_an_epoch()
    end do
  end subroutine check_late_dataset

  subroutine write_an_epoch()
    integer(c_int64_t) :: last
    call quire_dataset_writer_open(context, 'late_set', writer, status)
    if (status /= QUIRE_OK) return
    call quire_dataset_writer_last_epoch(writer, last, status)
    call quire_dataset_writer_begin_epoch(writer, last + 1, status)
    if (status == QUIRE_OK) then
      call quire_dataset_writer_put(writer, 'key', 'value', status)
      call expect(status == QUIRE_OK .or. status == QUIRE_TIMED_OUT, 'put into an epoch')
      call quire_dataset_writer_end_epoch(writer, status)
    end if
    if (status == QUIRE_OK) call quire_dataset_writer_finish(writer, status)
    call quire_dataset_writer_destroy(writer)
  end subroutine write_an_epoch

  subroutine check_late_persistence()
    character(len=:), allocatable :: val
    integer(c_int64_t) :: bytes_done, bytes_total
    do while (again('db_put before the checkpoint'))
      call quire_db_put(db, 'kept', 'value', status)
    end do
    do while (again('db_checkpoint'))
      call quire_db_checkpoint(db, trim(repository) // '-saved', event, status)
    end do
    do while (again('event_wait of a checkpoint'))
      call quire_event_wait(event, status)
    end do
    do while (again('event_progress'))
      call quire_event_progress(event, bytes_done, bytes_total, status)
    end do
    call quire_event_destroy(event)
    do while (again('db_close'))
      call quire_db_close(db, status)
      call accept_repeated(QUIRE_INVALID_ARGUMENT)
    end do
    do while (again('context_restart'))
      call quire_context_restart(context, trim(repository) // '-saved', 'late', event, status, &
                                 replace=.true.)
    end do
    do while (again('event_wait of a restart'))
      call quire_event_wait(event, status)
    end do
    call quire_event_destroy(event)
    do while (again('db_open of what was restarted'))
      call quire_db_open(context, 'late', db, status)
    end do
    do while (again('db_get of what was restarted'))
      call quire_db_get(db, 'kept', val, status)
    end do
    if (.not. parted) call expect(val == 'value', 'what was restarted')
    call wait_for_all()
    do while (again('db_close of what was restarted'))
      call quire_db_close(db, status)
      call accept_repeated(QUIRE_INVALID_ARGUMENT)
    end do
    call check_late_removal()
  end subroutine check_late_persistence

  subroutine check_late_removal()
    logical :: removed
    removed = .false.
    do while (again('context_destroy_database_async'))
      call quire_context_destroy_database_async(context, 'late', event, status)
      removed = status == QUIRE_NOT_FOUND .and. tried > 1
      call accept_repeated(QUIRE_NOT_FOUND)
    end do
    if (removed) return
    do while (again('event_wait of a removal'))
      call quire_event_wait(event, status)
    end do
    call quire_event_destroy(event)
  end subroutine check_late_removal

  ! What a call says that timed out and was done nevertheless.
  subroutine accept_repeated(code)
    integer, intent(in) :: code
    if (status == code .and. tried > 1) status = QUIRE_OK
  end subroutine accept_repeated

  subroutine wait_for_all()
    do while (again('db_barrier'))
      call quire_db_barrier(db, QUIRE_MEMTABLE, status)
    end do
  end subroutine wait_for_all

  ! Whether the call in a loop is to be made: the first time, and once more where this machine was
  ! so busy that a rank came too late again. Its last outcome is OK, unless the ranks parted: then
  ! no call is made any more.
  logical function again(what)
    character(len=*), intent(in) :: what
    again = .not. parted .and. (tried == 0 .or. (status == QUIRE_TIMED_OUT .and. tried < tries))
    if (again) then
      tried = tried + 1
      return
    end if
    tried = 0
    if (parted) return
    if (.not. is_parted()) call expect_ok(what // ' after a time-out')
  end function again

  ! Whether a rank ended a call at the moment in which another gave it up: all later ones say so.
  logical function is_parted()
    is_parted = status == QUIRE_PEER_FAILED
    if (.not. is_parted) return
    parted = .true.
    print '(a)', 'skipped: the ranks parted within one call'
  end function is_parted

  subroutine open_all()
    call quire_context_open_mpi(MPI_COMM_WORLD, repository, context, status)
    call expect_ok('context_open_mpi')
    call quire_db_open(context, 'db', db, status)
    call expect_ok('db_open')
    call quire_db_put(db, 'key', 'value', status)
    call expect_ok('db_put')
    call quire_db_register_update(db, 1, close_it, status)
    call expect_ok('db_register_update')
    call quire_db_checkpoint(db, trim(repository) // '-saved', event, status)
    call expect_ok('db_checkpoint')
    call quire_event_wait(event, status)
    call expect_ok('event_wait')
    call quire_iter_create(db, iter, status)
    call expect_ok('iter_create')
    call quire_batch_create(batch, status)
    call quire_batch_put(batch, 'key', 'value', status)
    call expect_ok('batch_put')
    call quire_dataset_writer_open(context, 'set', writer, status)
    call expect_ok('dataset_writer_open')
    call open_readers()
    call open_streams()
  end subroutine open_all

  subroutine open_readers()
    character(len=:), allocatable :: val
    call quire_db_barrier(db, QUIRE_SSTABLE, status)
    call quire_reader_open(trim(repository) // '/db', reader, status)
    call expect_ok('reader_open')
    call quire_reader_get(reader, 'key', val, status)
    call expect(status == QUIRE_OK .and. val == 'value', 'reader_get')
    call quire_dataset_writer_begin_epoch(writer, 1_8, status)
    call expect_ok('begin_epoch')
    call quire_dataset_writer_put(writer, 'key', 'value', status)
    call expect_ok('put into an epoch')
    call quire_dataset_writer_end_epoch(writer, status)
    call expect_ok('end_epoch')
    call quire_dataset_reader_open(trim(repository) // '/set', set, status)
    call expect_ok('dataset_reader_open')
    call quire_dataset_reader_get(set, 1_8, 'key', values, status)
    call expect(status == QUIRE_OK .and. quire_dataset_values_count(values) == ranks, 'the values')
    call quire_dataset_scan_create(set, 1_8, scan, status)
    call expect(status == QUIRE_OK .and. quire_dataset_scan_valid(scan), 'dataset_scan_create')
  end subroutine open_readers

  subroutine open_streams()
    integer(c_int64_t) :: version
    type(c_ptr) :: memory
    call quire_options_set(options, 'stream_log_bytes', '1MiB', status)
    call expect_ok('the size of a log')
    call quire_stream_writer_open(trim(repository) // '-place', 'store', rank, stream, status, &
                                  options)
    call expect_ok('stream_writer_open')
    call quire_stream_writer_create(stream, 'field', field_bytes, memory, status)
    call expect_ok('stream_writer_create')
    call quire_stream_writer_put(stream, 'field', version, status)
    call expect_ok('stream_writer_put')
    call quire_stream_reader_open(trim(repository) // '-place', 'store', rank, versions, status)
    call expect_ok('stream_reader_open')
  end subroutine open_streams

  ! A context that could not be closed is still there.
  subroutine check_inside()
    character(len=:), allocatable :: answer
    call quire_db_update_and_answer(db, 'update', 1, '', answer, status)
    call expect_ok('an update that closes its context')
    call expect(quire_context_rank(context) == rank, 'the context that was not closed')
    call quire_context_barrier(context, status)
    call expect_ok('barrier of the context that was not closed')
  end subroutine check_inside

  subroutine check_forked_child()
    character(len=:), allocatable :: val
    integer(c_int) :: child, outcome, ignored
    child = fork()
    if (child == 0) then
      in_child = .true.
      ignored = alarm(20_c_int)
      call refuse_database('forked')
      call refuse_context('forked')
      call refuse_held('forked')
      call refuse_writer('forked')
      call refuse_reader('forked')
      call refuse_dataset_reader('forked')
      call refuse_scan()
      call refuse_stream_writer('forked')
      call refuse_stream_reader('forked')
      call end_child(0_c_int)
    end if
    call expect(child > 0, 'fork')
    call expect(waitpid(child, outcome, 0_c_int) == child .and. outcome == 0, 'the forked child')
    call quire_db_get(db, 'key', val, status)
    call expect(status == QUIRE_OK .and. val == 'value', 'get behind the child')
    call quire_context_barrier(context, status)
    call expect_ok('barrier behind the child')
    call check_readers()
  end subroutine check_forked_child

  subroutine check_closed()
    call quire_iter_destroy(iter)
    call quire_event_destroy(event)
    call quire_dataset_writer_finish(writer, status)
    call expect_ok('finish')
    call refuse_writer('finished')
    call quire_dataset_writer_destroy(writer)
    call refuse_writer('writer')
    call check_readers_closed()
    call check_streams_closed()
    call quire_db_close(db, status)
    call expect_ok('db_close')
    call refuse_database('closed')
    call quire_batch_destroy(batch)
    call quire_context_close(context, status)
    call expect_ok('context_close')
    call refuse_context('context')
    call quire_context_close(context, status)
    call expect_ok('context_close of nothing')
    call refuse_held('null')
  end subroutine check_closed

  ! They stay as they are, whatever a child did.
  subroutine check_readers()
    character(len=:), allocatable :: key, val
    integer :: from
    integer(c_int64_t) :: version
    integer(c_size_t) :: bytes
    call quire_reader_get(reader, 'key', val, status)
    call expect(status == QUIRE_OK .and. val == 'value', 'a reader behind the child')
    call quire_dataset_reader_verify(set, 1_8, status)
    call expect_ok('dataset_reader_verify behind the child')
    call quire_dataset_scan_pair(scan, from, key, val, status)
    call expect(status == QUIRE_OK .and. key == 'key' .and. val == 'value', 'a scan behind it')
    call quire_stream_writer_put(stream, 'field', version, status)
    call expect(status == QUIRE_OK .and. version == 2, 'a put into a stream behind the child')
    bytes = int(field_bytes, c_size_t)
    call quire_stream_reader_get(versions, 'field', 2_8, c_loc(copy), bytes, status)
    call expect_ok('a get from a stream behind the child')
  end subroutine check_readers

  subroutine check_readers_closed()
    call quire_reader_destroy(reader)
    call refuse_reader('null')
    call quire_dataset_values_destroy(values)
    call expect(quire_dataset_values_count(values) == 0, 'the count of values that are gone')
    call quire_dataset_scan_destroy(scan)
    call refuse_scan()
    call quire_dataset_reader_destroy(set)
    call refuse_dataset_reader('null')
  end subroutine check_readers_closed

  subroutine check_streams_closed()
    call quire_stream_writer_finish(stream, status)
    call expect_ok('stream_writer_finish')
    call refuse_stream_writer('finished')
    call quire_stream_writer_destroy(stream)
    call refuse_stream_writer('null')
    call quire_stream_reader_destroy(versions)
    call refuse_stream_reader('null')
  end subroutine check_streams_closed

  subroutine refuse_database(reason)
    character(len=*), intent(in) :: reason
    character(len=:), allocatable :: text
    integer(c_int64_t) :: counted
    integer :: owner
    type(quire_iter) :: walk
    type(quire_event) :: another
    call quire_db_put(db, 'k', 'v', status)
    call expect_refused('db_put', reason)
    call quire_db_delete(db, 'k', status)
    call expect_refused('db_delete', reason)
    call quire_db_get(db, 'key', text, status)
    call expect_refused('db_get', reason)
    call expect(len(text) == 0, 'what a refused get gives')
    call quire_db_owner(db, 'key', owner, status)
    call expect_refused('db_owner', reason)
    call quire_db_write(db, batch, status)
    call expect_refused('db_write', reason)
    call quire_db_register_update(db, 2, close_it, status)
    call expect_refused('db_register_update', reason)
    call quire_db_update(db, 'key', 1, '', status)
    call expect_refused('db_update', reason)
    call quire_db_update_and_answer(db, 'key', 1, '', text, status)
    call expect_refused('db_update_and_answer', reason)
    call quire_db_fence(db, status)
    call expect_refused('db_fence', reason)
    call quire_db_flush(db, status)
    call expect_refused('db_flush', reason)
    call quire_db_barrier(db, QUIRE_MEMTABLE, status)
    call expect_refused('db_barrier', reason)
    call quire_db_set_consistency(db, QUIRE_RELAXED, status)
    call expect_refused('db_set_consistency', reason)
    call quire_db_protect(db, QUIRE_READ_WRITE, status)
    call expect_refused('db_protect', reason)
    call quire_db_compact(db, status)
    call expect_refused('db_compact', reason)
    call quire_db_statistic(db, 'flushes', counted, status)
    call expect_refused('db_statistic', reason)
    call quire_db_checkpoint(db, trim(repository) // '-saved', another, status)
    call expect_refused('db_checkpoint', reason)
    call quire_iter_create(db, walk, status)
    call expect_refused('iter_create', reason)
    call quire_db_close(db, status)
    call expect_refused('db_close', reason)
  end subroutine refuse_database

  subroutine refuse_context(reason)
    character(len=*), intent(in) :: reason
    character(len=:), allocatable :: text
    type(quire_event) :: another
    type(quire_dataset_writer) :: second
    call quire_context_describe(context, text, status)
    call expect_refused('context_describe', reason)
    call quire_context_barrier(context, status)
    call expect_refused('context_barrier', reason)
    call quire_context_notify(context, 1, [rank], status)
    call expect_refused('context_notify', reason)
    call quire_context_wait_signal(context, 1, [rank], status)
    call expect_refused('context_wait_signal', reason)
    call quire_context_progress(context, status)
    call expect_refused('context_progress', reason)
    call quire_context_agree(context, QUIRE_OK, '', status)
    call expect_refused('context_agree', reason)
    call quire_context_list_databases(context, text, status)
    call expect_refused('context_list_databases', reason)
    call quire_context_destroy_database(context, 'other', status)
    call expect_refused('context_destroy_database', reason)
    call quire_context_destroy_database_async(context, 'other', another, status)
    call expect_refused('context_destroy_database_async', reason)
    call quire_context_restart(context, trim(repository) // '-saved', 'db', another, status)
    call expect_refused('context_restart', reason)
    call quire_db_open(context, 'other', other, status)
    call expect_refused('db_open', reason)
    call quire_dataset_writer_open(context, 'second', second, status)
    call expect_refused('dataset_writer_open', reason)
  end subroutine refuse_context

  ! An iterator and an event.
  subroutine refuse_held(reason)
    character(len=*), intent(in) :: reason
    character(len=:), allocatable :: text
    integer(c_int64_t) :: bytes_done, bytes_total
    call quire_iter_seek_to_first(iter, status)
    call expect_refused('iter_seek_to_first', reason)
    call quire_iter_seek_to_last(iter, status)
    call expect_refused('iter_seek_to_last', reason)
    call quire_iter_seek(iter, 'key', status)
    call expect_refused('iter_seek', reason)
    call quire_iter_next(iter, status)
    call expect_refused('iter_next', reason)
    call quire_iter_prev(iter, status)
    call expect_refused('iter_prev', reason)
    call quire_iter_key(iter, text, status)
    call expect(status == QUIRE_INVALID_ARGUMENT .and. len(text) == 0, 'iter_key')
    call quire_iter_value(iter, text, status)
    call expect(status == QUIRE_INVALID_ARGUMENT .and. len(text) == 0, 'iter_value')
    call quire_iter_status(iter, status)
    call expect_refused('iter_status', reason)
    call expect(.not. quire_iter_valid(iter), 'iter_valid')
    call quire_event_wait(event, status)
    call expect_refused('event_wait', reason)
    call quire_event_progress(event, bytes_done, bytes_total, status)
    call expect_refused('event_progress', reason)
    ! A child that asks until it is ready comes to quire_event_wait, which says why not.
    call expect(quire_event_ready(event) .eqv. in_child, 'event_ready')
  end subroutine refuse_held

  subroutine refuse_writer(reason)
    character(len=*), intent(in) :: reason
    call quire_dataset_writer_begin_epoch(writer, 1_8, status)
    call expect_refused('dataset_writer_begin_epoch', reason)
    call quire_dataset_writer_put(writer, 'key', 'value', status)
    call expect_refused('dataset_writer_put', reason)
    call quire_dataset_writer_end_epoch(writer, status)
    call expect_refused('dataset_writer_end_epoch', reason)
    if (reason /= 'finished') then
      call quire_dataset_writer_finish(writer, status)
      call expect_refused('dataset_writer_finish', reason)
    end if
  end subroutine refuse_writer

  subroutine refuse_reader(reason)
    character(len=*), intent(in) :: reason
    character(len=:), allocatable :: text
    type(quire_iter) :: walk
    call quire_reader_get(reader, 'key', text, status)
    call expect_refused('reader_get', reason)
    call expect(len(text) == 0, 'what a refused get of a reader gives')
    call quire_reader_refresh(reader, status)
    call expect_refused('reader_refresh', reason)
    call quire_reader_iter_create(reader, walk, status)
    call expect_refused('reader_iter_create', reason)
  end subroutine refuse_reader

  subroutine refuse_dataset_reader(reason)
    character(len=*), intent(in) :: reason
    integer(c_int64_t) :: counted
    type(quire_dataset_epoch), allocatable :: epochs(:)
    type(quire_dataset_values) :: got
    type(quire_dataset_scan) :: another
    call quire_dataset_reader_refresh(set, status)
    call expect_refused('dataset_reader_refresh', reason)
    call quire_dataset_reader_epochs(set, epochs, status)
    call expect_refused('dataset_reader_epochs', reason)
    call expect(size(epochs) == 0, 'the epochs of a refused call')
    call quire_dataset_reader_verify(set, 1_8, status)
    call expect_refused('dataset_reader_verify', reason)
    call quire_dataset_reader_statistic(set, 'queries', counted, status)
    call expect_refused('dataset_reader_statistic', reason)
    call quire_dataset_reader_get(set, 1_8, 'key', got, status)
    call expect_refused('dataset_reader_get', reason)
    call quire_dataset_reader_trajectory(set, 'key', got, status)
    call expect_refused('dataset_reader_trajectory', reason)
    call quire_dataset_scan_create(set, 1_8, another, status)
    call expect_refused('dataset_scan_create', reason)
  end subroutine refuse_dataset_reader

  ! In a child it says that it is at its end, but for quire_dataset_scan_status.
  subroutine refuse_scan()
    character(len=:), allocatable :: key, val
    integer :: from
    call quire_dataset_scan_status(scan, status)
    call expect_refused('dataset_scan_status', merge('forked', 'null  ', in_child))
    call expect(.not. quire_dataset_scan_valid(scan), 'dataset_scan_valid')
    call quire_dataset_scan_next(scan, status)
    call expect(status == QUIRE_INVALID_ARGUMENT, 'dataset_scan_next')
    call quire_dataset_scan_pair(scan, from, key, val, status)
    call expect(status == QUIRE_INVALID_ARGUMENT, 'dataset_scan_pair')
    call expect(len(key) + len(val) == 0, 'the pair of a refused call')
  end subroutine refuse_scan

  subroutine refuse_stream_writer(reason)
    character(len=*), intent(in) :: reason
    integer(c_int64_t) :: number
    type(c_ptr) :: memory
    call quire_stream_writer_create(stream, 'new', field_bytes, memory, status)
    call expect_refused('stream_writer_create', reason)
    call expect(.not. c_associated(memory), 'the memory of a refused call')
    call quire_stream_writer_attach(stream, 'new', c_loc(attached), field_bytes, status)
    call expect_refused('stream_writer_attach', reason)
    call quire_stream_writer_free(stream, 'field', status)
    call expect_refused('stream_writer_free', reason)
    call quire_stream_writer_put(stream, 'field', number, status)
    call expect_refused('stream_writer_put', reason)
    call quire_stream_writer_snapshot(stream, number, status)
    call expect_refused('stream_writer_snapshot', reason)
    call quire_stream_writer_restore(stream, 0_8, status)
    call expect_refused('stream_writer_restore', reason)
    call quire_stream_writer_restore(stream, 0_8, status, 'field')
    call expect_refused('stream_writer_restore of one', reason)
    call quire_stream_writer_last_snapshot(stream, number, status)
    call expect_refused('stream_writer_last_snapshot', reason)
    call quire_stream_writer_sync(stream, status)
    call expect_refused('stream_writer_sync', reason)
    call quire_stream_writer_finish(stream, status)
    call expect_refused('stream_writer_finish', reason)
  end subroutine refuse_stream_writer

  subroutine refuse_stream_reader(reason)
    character(len=*), intent(in) :: reason
    integer(c_int64_t) :: newest
    integer(c_size_t) :: bytes
    bytes = int(field_bytes, c_size_t)
    call quire_stream_reader_get(versions, 'field', 1_8, c_loc(copy), bytes, status)
    call expect_refused('stream_reader_get', reason)
    call quire_stream_reader_get_at(versions, 'field', 1_8, c_loc(copy), bytes, status)
    call expect_refused('stream_reader_get_at', reason)
    call quire_stream_reader_wait(versions, 0_8, 1_8, newest, status)
    call expect_refused('stream_reader_wait', reason)
  end subroutine refuse_stream_reader

  ! Ends the child, or the job.
  subroutine expect(good, what)
    logical, intent(in) :: good
    character(len=*), intent(in) :: what
    integer :: ignored
    if (good) return
    write (0, *) 'rank', rank, ': ', what, status, quire_error_message()
    flush (0)
    if (in_child) call end_child(1_c_int)
    call mpi_abort(MPI_COMM_WORLD, 1, ignored)
  end subroutine expect

  subroutine expect_ok(what)
    character(len=*), intent(in) :: what
    call expect(status == QUIRE_OK, what)
  end subroutine expect_ok

  subroutine expect_refused(what, reason)
    character(len=*), intent(in) :: what, reason
    call expect(status == QUIRE_INVALID_ARGUMENT, what)
    call expect(index(quire_error_message(), trim(reason)) > 0, what // ': the message')
  end subroutine expect_refused

end program refusals_test
