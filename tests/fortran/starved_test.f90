! Calls of Quire's Fortran module of which one allocation fails, an early one first, then later ones:
! the call does its work, or says that there was no memory and gives nothing; then the same call
! works.
!
!   starved_test REPOSITORY   (a directory that is not there yet, and is left behind)
module starved_calls
  use, intrinsic :: iso_c_binding
  use quire
  implicit none
  interface
    subroutine starve(n) bind(c)
      import :: c_int64_t
      integer(c_int64_t), value :: n
    end subroutine starve
    integer(c_int) function starved() bind(c)
      import :: c_int
    end function starved
  end interface
  abstract interface
    subroutine quire_call(status)
      integer, intent(out) :: status
    end subroutine quire_call
  end interface
  integer :: refused = 0
  character(len=:), allocatable :: repository, text
  type(quire_context) :: context
  type(quire_db) :: db, another
  type(quire_iter) :: iter
  type(quire_dataset_writer) :: writer
contains

  subroutine expect(good, what)
    logical, intent(in) :: good
    character(len=*), intent(in) :: what
    if (good) return
    write (0, *) what, ': ', quire_error_message()
    error stop 1
  end subroutine expect

  subroutine sweep(what, call_it)
    character(len=*), intent(in) :: what
    procedure(quire_call) :: call_it
    integer(c_int64_t) :: n
    integer :: status
    logical :: failed
    n = 0
    failed = .true.
    do while (failed)
      text = ''
      call starve(n)
      call call_it(status)
      failed = starved() /= 0
      if (status /= QUIRE_OK) then
        call expect(failed .and. status == QUIRE_OUT_OF_MEMORY, what)
        refused = refused + 1
        call expect(len(text) == 0, what // ': what a call without memory gives')
        call call_it(status)
        call expect(status == QUIRE_OK, what // ' once there is memory')
      end if
      n = n + 1 + n / 4
    end do
  end subroutine sweep

  subroutine open_and_close(status)
    integer, intent(out) :: status
    type(quire_context) :: second
    integer :: closed
    call quire_context_open(repository // '-another', second, status)
    if (status /= QUIRE_OK) return
    call quire_context_close(second, closed)
    call expect(closed == QUIRE_OK, 'context_close')
  end subroutine open_and_close

  ! Closes what the call before has opened; a database that could not be closed well is closed, too.
  subroutine open_database(status)
    integer, intent(out) :: status
    integer :: closed
    call quire_db_close(another, closed)
    call quire_db_open(context, 'another', another, status)
  end subroutine open_database

  subroutine put(status)
    integer, intent(out) :: status
    call quire_db_put(db, 'key', 'value', status)
  end subroutine put

  subroutine get(status)
    integer, intent(out) :: status
    call quire_db_get(db, 'key', text, status)
    if (status == QUIRE_OK) call expect(text == 'value', 'db_get')
  end subroutine get

  subroutine list(status)
    integer, intent(out) :: status
    call quire_context_list_databases(context, text, status)
    if (status == QUIRE_OK) call expect(index(text, 'db') > 0, 'context_list_databases')
  end subroutine list

  subroutine describe(status)
    integer, intent(out) :: status
    call quire_context_describe(context, text, status)
  end subroutine describe

  subroutine flush_tables(status)
    integer, intent(out) :: status
    call quire_db_barrier(db, QUIRE_SSTABLE, status)
  end subroutine flush_tables

  subroutine save_all(status)
    integer, intent(out) :: status
    type(quire_event) :: event
    call quire_db_checkpoint(db, repository // '-saved', event, status, keep=1)
    if (status /= QUIRE_OK) return
    call quire_event_wait(event, status)
    call quire_event_destroy(event)
  end subroutine save_all

  subroutine walk(status)
    integer, intent(out) :: status
    call quire_iter_create(db, iter, status)
    if (status /= QUIRE_OK) return
    call quire_iter_seek_to_first(iter, status)
    if (status == QUIRE_OK) call quire_iter_value(iter, text, status)
    call quire_iter_destroy(iter)
  end subroutine walk

  subroutine write_epoch(status)
    integer, intent(out) :: status
    integer(c_int64_t) :: last
    call quire_dataset_writer_open(context, 'set', writer, status)
    if (status /= QUIRE_OK) return
    call quire_dataset_writer_last_epoch(writer, last, status)
    if (status == QUIRE_OK .or. status == QUIRE_NOT_FOUND) &
      call quire_dataset_writer_begin_epoch(writer, last + 1, status)
    if (status == QUIRE_OK) call quire_dataset_writer_put(writer, 'key', 'value', status)
    if (status == QUIRE_OK) call quire_dataset_writer_end_epoch(writer, status)
    call quire_dataset_writer_destroy(writer)
  end subroutine write_epoch

  subroutine read_epoch(status)
    integer, intent(out) :: status
    type(quire_dataset_reader) :: reader
    type(quire_dataset_values) :: values
    integer(c_int64_t) :: epoch
    integer :: by
    call quire_dataset_reader_open(repository // '/set', reader, status)
    if (status /= QUIRE_OK) return
    call quire_dataset_reader_get(reader, 1_c_int64_t, 'key', values, status)
    if (status == QUIRE_OK) call quire_dataset_values_at(values, 1, epoch, by, text, status)
    call quire_dataset_values_destroy(values)
    call quire_dataset_reader_destroy(reader)
  end subroutine read_epoch

end module starved_calls

program starved_test
  use starved_calls
  implicit none
  character(len=200) :: argument
  integer :: status
  call get_command_argument(1, argument)
  repository = trim(argument)
  call quire_context_open(repository, context, status)
  call expect(status == QUIRE_OK, 'context_open')
  call quire_db_open(context, 'db', db, status)
  call expect(status == QUIRE_OK, 'db_open')
  call sweep('context_open', open_and_close)
  call sweep('db_open', open_database)
  call sweep('db_put', put)
  call sweep('db_get', get)
  call sweep('context_list_databases', list)
  call sweep('context_describe', describe)
  call sweep('db_barrier', flush_tables)
  call sweep('db_checkpoint', save_all)
  call sweep('iter_create', walk)
  call sweep('dataset_writer', write_epoch)
  call sweep('dataset_reader', read_epoch)
  call expect(refused > 50, 'a call that takes memory')
  call get(status)
  call expect(status == QUIRE_OK, 'db_get behind all')
  call quire_db_close(db, status)
  call expect(status == QUIRE_OK, 'db_close')
  call quire_context_close(context, status)
  call expect(status == QUIRE_OK, 'context_close')
  print '(i0,a)', refused, ' calls without memory'
end program starved_test
